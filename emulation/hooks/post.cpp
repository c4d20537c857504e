// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Posting. Local memory that a WR reads or writes is written back first; for a sink, so that no
// later eviction overwrites the received data. If the program has to do that, it is checked. The
// driver gets a copy of the WR list with numbers of pending_wr_table as wr_id.

#include "device_shim.hpp"
#include "peer_ipc.hpp"

#include <cerrno>
#include <new>

namespace coherdma::emulation {
namespace {

constexpr std::uint32_t bit(ibv_wr_opcode opcode) noexcept {
    return static_cast<unsigned>(opcode) < 32 ? std::uint32_t{1} << opcode : 0;
}
constexpr std::uint32_t ATOMIC_OPCODES =
    bit(IBV_WR_ATOMIC_CMP_AND_SWP) | bit(IBV_WR_ATOMIC_FETCH_AND_ADD);
constexpr std::uint32_t LOCAL_SINK_OPCODES = ATOMIC_OPCODES | bit(IBV_WR_RDMA_READ);
constexpr std::uint32_t LOCAL_SOURCE_OPCODES = bit(IBV_WR_SEND) | bit(IBV_WR_SEND_WITH_IMM) |
                                               bit(IBV_WR_SEND_WITH_INV) | bit(IBV_WR_RDMA_WRITE) |
                                               bit(IBV_WR_RDMA_WRITE_WITH_IMM);
constexpr std::uint32_t REMOTE_MEMORY_OPCODES =
    LOCAL_SINK_OPCODES | bit(IBV_WR_RDMA_WRITE) | bit(IBV_WR_RDMA_WRITE_WITH_IMM);

template <class wr_type>
std::uint64_t length_of(const wr_type &wr) noexcept {
    std::uint64_t length = 0;
    for (int i = 0; i < wr.num_sge; ++i)
        length += wr.sg_list[i].length;
    return length;
}

void prepare_source(addr_range range, const pending_wr &pending) {
    if (process_state().config.program_syncs_local)
        process_state().cache.check_local_source(range, pending.request);
    else
        process_state().cache.writeback_source(range);
}

void prepare_sink(addr_range range, pending_wr &pending) {
    if (!process_state().config.program_syncs_local)
        process_state().cache.writeback_sink(range);
    else if (process_state().cache.check_local_sink(range, pending.request))
        pending.is_reported = true;
}

/// Prepares the local memory of a WR for the device, except inline data: the CPU copies them, from
/// the program's copy.
void prepare_sges(emulated_device &device, const ibv_qp &qp, const ibv_send_wr &wr,
                  pending_wr &pending) {
    if ((wr.send_flags & IBV_SEND_INLINE) != 0)
        return;
    if (process_state().config.program_syncs_local)
        pending.request = describe_wr(qp, wr.opcode, wr.wr_id, length_of(wr));
    for (int i = 0; i < wr.num_sge; ++i)
        prepare_sge(device, wr.opcode, wr.sg_list[i], pending);
}

/// Has the process that owns the remote memory of the WR check it.
void check_wr_target(emulated_device &device, const ibv_qp &qp, const ibv_send_wr &wr) {
    if (!accesses_remote_memory(wr.opcode))
        return;
    constexpr std::uint64_t ATOMIC_LENGTH = 8;
    if ((ATOMIC_OPCODES & bit(wr.opcode)) != 0)
        check_remote_access(device, qp, wr.opcode, wr.wr_id, wr.wr.atomic.rkey,
                            wr.wr.atomic.remote_addr, ATOMIC_LENGTH);
    else
        check_remote_access(device, qp, wr.opcode, wr.wr_id, wr.wr.rdma.rkey,
                            wr.wr.rdma.remote_addr, length_of(wr));
}

/// The driver's copy of a WR list.
template <class wr_type>
struct wr_list_copy {
    std::vector<wr_type> copies;
    std::vector<wr_type *> originals;

    void add(wr_type *wr, std::uint64_t number) {
        copies.push_back(*wr);
        copies.back().wr_id = number;
        originals.push_back(wr);
    }
    /// After the last add(). nullptr: the list is empty.
    wr_type *link() {
        for (std::size_t i = 0; i + 1 < copies.size(); ++i)
            copies[i].next = &copies[i + 1];
        if (copies.empty())
            return nullptr;
        copies.back().next = nullptr;
        return copies.data();
    }
    /// Cancels the WRs that the driver did not accept. *bad_wr: the original of bad_copy.
    void cancel_from(emulated_device &device, const wr_type *bad_copy, wr_type **bad_wr) {
        const auto first = static_cast<std::size_t>(bad_copy - copies.data());
        for (std::size_t i = first; i < copies.size(); ++i)
            device.pending_wrs.cancel(copies[i].wr_id);
        *bad_wr = originals[first];
    }
};

/// Called in place of the driver's, which gets a copy of the list with numbers of pending_wr_table.
int post_send(ibv_qp *qp, ibv_send_wr *wr_list, ibv_send_wr **bad_wr) noexcept try {
    emulated_device &device = *find_device(qp->context);
    process_state().cache.on_post_or_poll();
    wr_list_copy<ibv_send_wr> copy;
    for (ibv_send_wr *wr = wr_list; wr != nullptr; wr = wr->next) {
        pending_wr pending = {
            wr->wr_id, qp, true, (wr->send_flags & IBV_SEND_SIGNALED) != 0 || device.is_sig_all(qp),
            {},        {}};
        prepare_sges(device, *qp, *wr, pending);
        check_wr_target(device, *qp, *wr);
        copy.add(wr, device.pending_wrs.add(std::move(pending)));
    }
    ibv_send_wr *bad_copy = nullptr;
    const int error = device.driver_ops.post_send(qp, copy.link(), &bad_copy);
    if (error != 0)
        copy.cancel_from(device, bad_copy, bad_wr);
    for (ibv_send_wr *wr = wr_list; wr != nullptr && !(error != 0 && wr == *bad_wr); wr = wr->next)
        if (wr->opcode == IBV_WR_BIND_MW)
            record_mw_bind(device, *wr->bind_mw.mw, wr->bind_mw.rkey, wr->bind_mw.bind_info);
    return error;
} catch (const std::bad_alloc &) {
    *bad_wr = wr_list;
    return ENOMEM;
}

/// queue: an ibv_qp or ibv_srq. driver_post gets a copy of the list with numbers of
/// pending_wr_table.
template <class queue_type>
int post_receives(queue_type *queue, ibv_recv_wr *wr_list, ibv_recv_wr **bad_wr,
                  int (*driver_post)(queue_type *, ibv_recv_wr *, ibv_recv_wr **)) noexcept try {
    emulated_device &device = *find_device(queue->context);
    process_state().cache.on_post_or_poll();
    wr_list_copy<ibv_recv_wr> copy;
    for (ibv_recv_wr *wr = wr_list; wr != nullptr; wr = wr->next) {
        pending_wr pending = {wr->wr_id, queue, false, true, {}, {}};
        if (process_state().config.program_syncs_local)
            pending.request = describe_recv(wr->wr_id, length_of(*wr));
        for (int i = 0; i < wr->num_sge; ++i) {
            const addr_range range = device.find_memory_by_lkey(wr->sg_list[i]);
            // Memory that is not emulated also counts towards byte_len of the completion.
            pending.sinks.push_back(range.empty() ? addr_range{0, wr->sg_list[i].length} : range);
            prepare_sink(range, pending);
        }
        copy.add(wr, device.pending_wrs.add(std::move(pending)));
    }
    ibv_recv_wr *bad_copy = nullptr;
    const int error = driver_post(queue, copy.link(), &bad_copy);
    if (error != 0)
        copy.cancel_from(device, bad_copy, bad_wr);
    return error;
} catch (const std::bad_alloc &) {
    *bad_wr = wr_list;
    return ENOMEM;
}

int post_recv(ibv_qp *qp, ibv_recv_wr *wr_list, ibv_recv_wr **bad_wr) noexcept {
    return post_receives(qp, wr_list, bad_wr, find_device(qp->context)->driver_ops.post_recv);
}
int post_srq_recv(ibv_srq *srq, ibv_recv_wr *wr_list, ibv_recv_wr **bad_wr) noexcept {
    return post_receives(srq, wr_list, bad_wr, find_device(srq->context)->driver_ops.post_srq_recv);
}

} // namespace

bool accesses_remote_memory(ibv_wr_opcode opcode) noexcept {
    return (REMOTE_MEMORY_OPCODES & bit(opcode)) != 0;
}

/// Before a WR is posted: writes the memory of its SGE back, or checks that the program has, and
/// adds it to pending.sinks if the device will write it.
void prepare_sge(emulated_device &device, ibv_wr_opcode opcode, const ibv_sge &sge,
                 pending_wr &pending) {
    if (((LOCAL_SINK_OPCODES | LOCAL_SOURCE_OPCODES) & bit(opcode)) == 0)
        return;
    const addr_range range = device.find_memory_by_lkey(sge);
    if ((LOCAL_SINK_OPCODES & bit(opcode)) == 0) {
        prepare_source(range, pending);
    } else {
        prepare_sink(range, pending);
        pending.sinks.push_back(range);
    }
}

/// A bind is posted: the rkey of the MW gives access to another part of memory, or to none.
void record_mw_bind(emulated_device &device, const ibv_mw &mw, std::uint32_t rkey,
                    const ibv_mw_bind_info &bind_info) {
    peer_ipc::withdraw_rkey(device.driver_id, mw.rkey);
    keyed_memory memory;
    {
        const std::unique_lock guard(device.mutex);
        device.by_rkey.erase(mw.rkey);
        if (bind_info.mr == nullptr || bind_info.length == 0)
            return;
        const auto mr = device.by_lkey.find(bind_info.mr->lkey);
        if (mr == device.by_lkey.end())
            return;
        memory = mr->second;
        memory.range.begin += bind_info.addr - memory.iova;
        memory.range.end = memory.range.begin + bind_info.length;
        memory.iova = (bind_info.mw_access_flags & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : bind_info.addr;
        device.by_rkey[rkey] = memory;
    }
    peer_ipc::publish_rkey(device.driver_id, rkey, memory);
}

void hook_post_ops(abi::verbs_context_ops &ops) {
    ops.post_send = post_send; // also called for ibv_bind_mw
    ops.post_recv = post_recv;
    if (ops.post_srq_recv != nullptr)
        ops.post_srq_recv = post_srq_recv;
}

} // namespace coherdma::emulation
