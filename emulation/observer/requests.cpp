// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The local memory of the program's own requests.

#include "requests.hpp"

#include <algorithm>
#include <mutex>

namespace coherdma::emulation {
namespace {

using interposer::completion;
using interposer::request;

constexpr std::uint32_t bit(ibv_wr_opcode opcode) noexcept {
    return static_cast<unsigned>(opcode) < 32 ? std::uint32_t{1} << opcode : 0;
}
constexpr std::uint32_t ATOMIC_OPCODES =
    bit(IBV_WR_ATOMIC_CMP_AND_SWP) | bit(IBV_WR_ATOMIC_FETCH_AND_ADD);
constexpr std::uint32_t LOCAL_SINK_OPCODES = ATOMIC_OPCODES | bit(IBV_WR_RDMA_READ);
constexpr std::uint32_t LOCAL_SOURCE_OPCODES = bit(IBV_WR_SEND) | bit(IBV_WR_SEND_WITH_IMM) |
                                               bit(IBV_WR_SEND_WITH_INV) | bit(IBV_WR_RDMA_WRITE) |
                                               bit(IBV_WR_RDMA_WRITE_WITH_IMM);
constexpr std::uint32_t REMOTE_MEMORY_OPCODES = LOCAL_SINK_OPCODES | bit(IBV_WR_RDMA_WRITE) |
                                                bit(IBV_WR_RDMA_WRITE_WITH_IMM) |
                                                bit(IBV_WR_ATOMIC_WRITE);

constexpr std::uint64_t ALL_BYTES = ~std::uint64_t{0};

template <class wr_type>
std::uint64_t length_of(const wr_type &wr) noexcept {
    std::uint64_t length = 0;
    for (int i = 0; i < wr.num_sge; ++i)
        length += wr.sg_list[i].length;
    return length;
}

void prepare_source(addr_range range, const pending_request &pending, unposted_checks *unposted) {
    if (process_state().config.program_syncs_local)
        process_state().cache.check_local_source(range, pending.description, unposted);
    else
        process_state().cache.writeback_source(range);
}

/// unposted: nullptr: findings are reported now.
void prepare_sink(addr_range range, pending_request &pending, unposted_checks *unposted) {
    if (!process_state().config.program_syncs_local)
        process_state().cache.writeback_sink(range);
    else if (process_state().cache.check_local_sink(range, pending.description, unposted))
        pending.is_reported = true;
}

/// Prepares the local memory of a WR for the device, except inline data: the CPU copies them, from
/// the program's copy.
void prepare_sges(emulated_device &device, const ibv_qp &qp, const request &sent,
                  const ibv_send_wr &wr, pending_request &pending, unposted_checks &unposted) {
    const bool is_sink = (LOCAL_SINK_OPCODES & bit(wr.opcode)) != 0;
    const bool is_source = (LOCAL_SOURCE_OPCODES & bit(wr.opcode)) != 0;
    if ((wr.send_flags & IBV_SEND_INLINE) != 0 || (!is_sink && !is_source))
        return;
    if (process_state().config.program_syncs_local)
        pending.description = describe_send(qp, wr.opcode, sent.wr_id, length_of(wr));
    for (int i = 0; i < wr.num_sge; ++i) {
        const addr_range range = device.find_memory_by_lkey(wr.sg_list[i]);
        if (is_sink) {
            prepare_sink(range, pending, &unposted);
            pending.sinks.push_back(range);
        } else {
            prepare_source(range, pending, &unposted);
        }
    }
}

/// Has the process that owns the remote memory of the WR check it.
void check_target(emulated_device &device, const ibv_qp &qp, const request &sent,
                  const ibv_send_wr &wr, request_checks &checks) {
    if (!accesses_remote_memory(wr.opcode))
        return;
    constexpr std::uint64_t ATOMIC_LENGTH = 8;
    remote_memory memory = {.driver_number = device.driver_number,
                            .rkey = wr.wr.rdma.rkey,
                            .addr = wr.wr.rdma.remote_addr,
                            .length = length_of(wr)};
    if ((ATOMIC_OPCODES & bit(wr.opcode)) != 0) {
        memory.rkey = wr.wr.atomic.rkey;
        memory.addr = wr.wr.atomic.remote_addr;
        memory.length = ATOMIC_LENGTH;
    }
    if (wr.opcode == IBV_WR_ATOMIC_WRITE)
        memory.length = ATOMIC_LENGTH;
    check_remote_access(device, qp, wr.opcode, sent.wr_id, memory, checks);
}

/// The device has written num_bytes bytes to the sinks, the memory of the request's SGEs, in their
/// order: fetches them, or records that the program has to.
void complete_sinks(const pending_request &completed, std::uint64_t num_bytes) {
    for (const addr_range &sink : completed.sinks) {
        const std::uint64_t length = std::min<std::uint64_t>(num_bytes, sink.size());
        const addr_range written = {sink.begin, sink.begin + length};
        if (process_state().config.program_syncs_local)
            process_state().cache.record_local_write(written, completed.description,
                                                     completed.is_reported);
        else
            process_state().cache.fetch_sink(written);
        num_bytes -= length;
    }
}

/// How many bytes the device has written to the request's memory.
std::uint64_t num_bytes_written(const completion &polled, bool is_receive) noexcept {
    if (polled.wc.status != IBV_WC_SUCCESS) // it may have written a part
        return process_state().config.program_syncs_local ? ALL_BYTES : 0;
    if (!is_receive)
        return ALL_BYTES;
    if (polled.wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM)
        return 0; // the data went to the remote address of the Write
    return polled.has_byte_len ? polled.wc.byte_len : ALL_BYTES;
}

} // namespace

void prepare_send(emulated_device &device, const request &sent, const ibv_send_wr &wr) {
    const ibv_qp &qp = *static_cast<const ibv_qp *>(sent.queue);
    pending_request pending;
    request_checks checks;
    prepare_sges(device, qp, sent, wr, pending, checks.local);
    if (!pending.sinks.empty())
        process_state().requests.add(sent.queue, sent.number, std::move(pending));
    check_target(device, qp, sent, wr, checks);
    if (!checks.is_empty())
        process_state().unposted.add(sent.queue, sent.number, std::move(checks));
}

bool accesses_remote_memory(ibv_wr_opcode opcode) noexcept {
    return (REMOTE_MEMORY_OPCODES & bit(opcode)) != 0;
}

void prepare_receive(emulated_device &device, const request &receive, const ibv_recv_wr &wr) {
    pending_request pending;
    if (process_state().config.program_syncs_local)
        pending.description = describe_receive(receive.wr_id, length_of(wr));
    for (int i = 0; i < wr.num_sge; ++i) {
        const addr_range range = device.find_memory_by_lkey(wr.sg_list[i]);
        // Memory that is not emulated also counts towards byte_len of the completion.
        pending.sinks.push_back(range.empty() ? addr_range{0, wr.sg_list[i].length} : range);
        prepare_sink(range, pending, nullptr); // there is no event when it is posted
    }
    process_state().requests.add(receive.queue, receive.number, std::move(pending));
}

void complete_requests(const completion &polled) {
    pending_requests &requests = process_state().requests;
    for (const request &silent : polled.silent)
        if (const auto completed = requests.take(silent.queue, silent.number))
            complete_sinks(*completed, ALL_BYTES);
    if (polled.completed == nullptr)
        return;
    const bool is_receive = polled.completed->is_receive;
    const auto completed = requests.take(polled.completed->queue, polled.completed->number);
    if (completed)
        complete_sinks(*completed, num_bytes_written(polled, is_receive));
    if (polled.wc.status == IBV_WC_SUCCESS && (is_receive || completed))
        process_state().cache.on_data_received();
}

void begin_destroy_queue(emulated_device &device, std::uint64_t object_number) {
    const std::uint64_t last_request = process_state().requests.last_number();
    const std::unique_lock guard(device.mutex);
    device.last_requests_of_ending[object_number] = last_request;
}

void end_destroy_queue(emulated_device &device, const void *queue, std::uint64_t object_number,
                       int error) {
    decltype(device.last_requests_of_ending)::node_type node;
    {
        const std::unique_lock guard(device.mutex);
        node = device.last_requests_of_ending.extract(object_number);
    }
    if (node && error == 0)
        process_state().requests.remove_queue(queue, node.mapped());
}

} // namespace coherdma::emulation
