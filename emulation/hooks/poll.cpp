// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Polling: fetches data that arrived before the program sees the completion, unless the program
// has to do that, and restores the program's wr_id.

#include "device_shim.hpp"

#include <algorithm>

namespace coherdma::emulation {
namespace {

/// The device has written byte_len bytes to the sinks, the memory of the WR's SGEs, in their order:
/// fetches them, or records that the program has to.
void complete_sinks(const pending_wr &wr, std::uint64_t byte_len) {
    for (const addr_range &sink : wr.sinks) {
        const std::uint64_t length = std::min<std::uint64_t>(byte_len, sink.size());
        const addr_range written = {sink.begin, sink.begin + length};
        if (process_state().config.program_syncs_local)
            process_state().cache.record_local_write(written, wr.request, wr.is_reported);
        else
            process_state().cache.fetch_sink(written);
        byte_len -= length;
    }
}

/// Fetches what the device wrote, and returns the program's wr_id. pending_number: the driver's
/// wr_id, a number of pending_wr_table.
std::uint64_t complete_wr(emulated_device &device, std::uint64_t pending_number, bool is_success,
                          ibv_wc_opcode opcode, std::uint32_t byte_len) {
    const std::vector<pending_wr> completed = device.pending_wrs.complete(pending_number);
    if (completed.empty())
        return pending_number; // the program's own: a WR that is not hooked
    // The unsignaled WRs before the last one have succeeded: they have no completion.
    for (std::size_t i = 0; i + 1 < completed.size(); ++i)
        complete_sinks(completed[i], ~std::uint64_t{0});
    const pending_wr &last = completed.back();
    // The data of a Write with immediate went to its remote address, not to the receive.
    if (is_success && (last.is_send || opcode != IBV_WC_RECV_RDMA_WITH_IMM))
        complete_sinks(last, last.is_send ? ~std::uint64_t{0} : byte_len);
    // The device may have written a part.
    if (!is_success && process_state().config.program_syncs_local)
        complete_sinks(last, ~std::uint64_t{0});
    if (is_success && (!last.is_send || !last.sinks.empty()))
        process_state().cache.on_data_received();
    return last.wr_id;
}

/// Called in place of the driver's: gives each completion the wr_id of the program back, and
/// completes its pending WR.
int poll_cq(ibv_cq *cq, int num_entries, ibv_wc *wcs) noexcept {
    emulated_device &device = *find_device(cq->context);
    const int count = device.driver_ops.poll_cq(cq, num_entries, wcs);
    process_state().cache.on_post_or_poll();
    for (int i = 0; i < count; ++i) {
        ibv_wc &wc = wcs[i];
        wc.wr_id =
            complete_wr(device, wc.wr_id, wc.status == IBV_WC_SUCCESS, wc.opcode, wc.byte_len);
    }
    return count;
}

/// The driver's start_poll or next_poll has found a completion, or returned this error.
int complete_current(emulated_device &device, ibv_cq_ex *cq, int error) {
    process_state().cache.on_post_or_poll();
    if (error != 0)
        return error;
    const bool is_success = cq->status == IBV_WC_SUCCESS;
    cq->wr_id =
        complete_wr(device, cq->wr_id, is_success, is_success ? cq->read_opcode(cq) : IBV_WC_SEND,
                    is_success ? cq->read_byte_len(cq) : 0);
    return 0;
}

int start_poll(ibv_cq_ex *cq, ibv_poll_cq_attr *attr) noexcept {
    emulated_device *const device = find_device(cq->context);
    return device != nullptr ? complete_current(*device, cq, device->driver_start_poll(cq, attr))
                             : find_inherited_device(cq->context)->driver_start_poll(cq, attr);
}

int next_poll(ibv_cq_ex *cq) noexcept {
    emulated_device *const device = find_device(cq->context);
    return device != nullptr ? complete_current(*device, cq, device->driver_next_poll(cq))
                             : find_inherited_device(cq->context)->driver_next_poll(cq);
}

/// Called in place of the driver's: replaces the CQ's functions that find a completion.
ibv_cq_ex *create_cq_ex(ibv_context *ctx, ibv_cq_init_attr_ex *attr) noexcept {
    emulated_device &device = *find_device(ctx);
    ibv_cq_ex *const cq = device.driver_ops.create_cq_ex(ctx, attr);
    if (cq != nullptr) {
        device.driver_start_poll = cq->start_poll; // the same for all CQs of a device
        device.driver_next_poll = cq->next_poll;
        cq->start_poll = start_poll;
        cq->next_poll = next_poll;
    }
    return cq;
}

} // namespace

void hook_poll_ops(abi::verbs_context_ops &ops) {
    ops.poll_cq = poll_cq;
    ops.create_cq_ex = create_cq_ex;
}

} // namespace coherdma::emulation
