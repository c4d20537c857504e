// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The other side of a request: whose memory it is that a peer of ours has.

#include "neighbours.hpp"
#include "played.hpp"

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <unistd.h>

namespace coherdma::emulation {
namespace {

const char *name_of(ibv_wr_opcode opcode) noexcept {
    switch (opcode) {
    case IBV_WR_RDMA_READ:
        return "RDMA Read";
    case IBV_WR_ATOMIC_CMP_AND_SWP:
        return "compare and swap";
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return "fetch and add";
    default:
        return "RDMA Write";
    }
}

deed in_words(const ibv_qp &pair, ibv_wr_opcode opcode, std::uint64_t id, std::uint64_t length) {
    char words[160];
    std::snprintf(
        words, sizeof words,
        "%s of %" PRIu64 " bytes, request 0x%" PRIx64 " of queue pair %u, by process %d (%s)",
        name_of(opcode), length, id, pair.qp_num, getpid(), program_invocation_short_name);
    deed is;
    is.words = words;
    is.where = here().asked.stacks ? trace::here() : trace{};
    return is;
}

} // namespace

void announce(played &on, const ibv_qp &pair, ibv_wr_opcode opcode, std::uint64_t id,
              std::uint32_t key, std::uint64_t remote, std::uint64_t length) {
    if (here().asked.plays == mode::THROUGH || length == 0)
        return;
    // Keys of two devices may be the same. If two fit, nobody knows which is meant.
    std::vector<span> fitting;
    each_device([&](played &other) {
        if (other.driver != on.driver)
            return;
        if (const span where = other.where_remote(key, remote, length); !where.empty())
            fitting.push_back(where);
    });
    const deed by = in_words(pair, opcode, id, length);
    if (fitting.empty())
        neighbours::tell(on.driver, key, remote, length, opcode, by);
    if (fitting.size() == 1)
        look_at(fitting[0], opcode, by);
}

void look_at(span where, ibv_wr_opcode opcode, const deed &by) {
    switch (opcode) {
    case IBV_WR_RDMA_READ:
        here().memory.peer_reads(where, by);
        break;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        here().memory.peer_changes(where, by);
        break;
    default:
        here().memory.peer_writes(where, by);
    }
}

} // namespace coherdma::emulation
