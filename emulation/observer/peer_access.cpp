// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The remote memory of a work request: which process emulates it, and the check of its lines.

#include "peer_ipc.hpp"
#include "requests.hpp"

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <unistd.h>

namespace coherdma::emulation {
namespace {

const char *operation_name(ibv_wr_opcode opcode) noexcept {
    switch (opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
    case IBV_WR_SEND_WITH_INV:
        return "Send";
    case IBV_WR_RDMA_READ:
        return "RDMA Read";
    case IBV_WR_ATOMIC_CMP_AND_SWP:
        return "compare and swap";
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return "fetch and add";
    case IBV_WR_ATOMIC_WRITE:
        return "atomic Write";
    default:
        return "RDMA Write";
    }
}

mem_access with_stack(const char *text) {
    return {text, process_state().config.stack_traces ? stack_trace::capture() : stack_trace{}, {}};
}

} // namespace

/// The request as findings name it.
mem_access describe_send(const ibv_qp &qp, ibv_wr_opcode opcode, std::uint64_t wr_id,
                         std::uint64_t length) {
    char text[160];
    std::snprintf(text, sizeof text,
                  "%s of %" PRIu64 " bytes, wr_id 0x%" PRIx64 " of QP %u, by process %d (%s)",
                  operation_name(opcode), length, wr_id, qp.qp_num, getpid(),
                  program_invocation_short_name);
    return with_stack(text);
}

mem_access describe_receive(std::uint64_t wr_id, std::uint64_t length) {
    char text[160];
    std::snprintf(text, sizeof text,
                  "Receive of %" PRIu64 " bytes, wr_id 0x%" PRIx64 ", by process %d (%s)", length,
                  wr_id, getpid(), program_invocation_short_name);
    return with_stack(text);
}

int needed_access(ibv_wr_opcode opcode) noexcept {
    switch (opcode) {
    case IBV_WR_RDMA_READ:
        return 0; // siw's kernel lets peers read any MR
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return IBV_ACCESS_REMOTE_ATOMIC;
    default:
        return IBV_ACCESS_REMOTE_WRITE;
    }
}

/// Before a WR that accesses remote memory is posted: checks that memory in the process of this
/// host that emulates it, this one or another.
void check_remote_access(emulated_device &device, const ibv_qp &qp, ibv_wr_opcode opcode,
                         std::uint64_t wr_id, const remote_memory &memory, request_checks &checks) {
    if (process_state().config.mode == cache_mode::PASSTHROUGH || memory.length == 0)
        return;
    // Two devices may use the same rkey. With more than one match the owner is ambiguous.
    std::vector<addr_range> matches;
    for_each_device([&](emulated_device &other) {
        if (other.driver_number != device.driver_number)
            return;
        if (const addr_range range = other.find_memory_by_rkey(memory, needed_access(opcode));
            !range.empty())
            matches.push_back(range);
    });
    const mem_access access = describe_send(qp, opcode, wr_id, memory.length);
    if (matches.empty())
        checks.peers = peer_ipc::request_check(memory, opcode, access);
    if (matches.size() == 1)
        check_peer_access(matches[0], opcode, access, checks.local);
}

/// Checks memory of this process for a WR that is about to be posted.
void check_peer_access(addr_range range, ibv_wr_opcode opcode, const mem_access &access,
                       unposted_checks &checks) {
    switch (opcode) {
    case IBV_WR_RDMA_READ:
        process_state().cache.check_peer_rdma_read(range, access, &checks);
        break;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        process_state().cache.check_peer_atomic(range, access, &checks);
        break;
    default:
        process_state().cache.check_peer_rdma_write(range, access, &checks);
    }
}

static void end_checks(request_checks checks, bool is_posted) {
    peer_ipc::end_request(checks.peers, is_posted);
    if (checks.local.is_empty())
        return;
    if (is_posted)
        process_state().cache.report_posted(checks.local);
    else
        process_state().cache.drop_unposted(checks.local);
}

void end_checks(const interposer::request &ended, bool is_posted) {
    end_checks(process_state().unposted.take(ended.number), is_posted);
}

void drop_checks(const void *queue) {
    for (request_checks &checks : process_state().unposted.take_queue(queue))
        end_checks(std::move(checks), false);
}

} // namespace coherdma::emulation
