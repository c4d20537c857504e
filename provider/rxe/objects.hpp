// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The objects of an rxe device, each with libibverbs' part first, and the operations on them.
#pragma once

#include "common/bell.hpp"
#include "common/objects.hpp"
#include "common/pairs.hpp"
#include "ring.hpp"

#include <cstdint>
#include <rdma/ib_user_ioctl_verbs.h>

namespace coherdma::provider::rxe {

struct pair;

struct context {
    ibv_context verbs;
    pairs<pair> all;
};

struct handle {
    ibv_ah verbs;
    std::uint32_t number;
};

struct queue {
    abi::verbs_cq verbs;
    turn polling;
    ring completions;
    ibv_wc current; ///< between start_poll and end_poll
};

struct shared {
    abi::verbs_srq verbs;
    turn posting;
    ring receives;
    std::uint32_t most_pieces;
};

struct pair {
    abi::verbs_qp verbs;
    pair *next;
    turn sending, receiving;
    bell ringing;
    ring sends, receives; ///< the latter is not mapped if a shared queue is used
    std::uint32_t most_pieces_sent, most_pieces_received, most_inline;
    std::uint32_t opcodes; ///< a bit for each ibv_wr_opcode that such a pair can
    std::uint32_t first;   ///< between wr_start and wr_complete: where the first request is,
    send_slot *building;   ///< the last one, or nullptr,
    int refused;           ///< and an errno if there is anything wrong with one
    bool broken;           ///< somebody brings it to the error state, or has

    /// Has the kernel look at what is published. 0, or an errno.
    int announce() noexcept;
};

verbs_context *open(ibv_device *device, int fd, void *) noexcept;
verbs_context *import(ibv_device *device, int fd) noexcept;

void fill_handle(abi::operations &able) noexcept;
void fill_multicast(abi::operations &able) noexcept;
void fill_pair(abi::operations &able) noexcept;
void fill_post(abi::operations &able) noexcept;
void fill_queue(abi::operations &able) noexcept;
void fill_region(abi::operations &able) noexcept;
void fill_shared(abi::operations &able) noexcept;
void fill_window(abi::operations &able) noexcept;

/// Has the completions of a pair that are in a ring never polled.
void forget_completions(queue &of, std::uint32_t pair) noexcept;

/// Gives a completion queue the functions to poll it by parts.
void extend(queue &own) noexcept;

/// Gives a pair those of the functions to post by parts that are asked for.
void extend(pair &own, std::uint64_t operations) noexcept;

/// The opcodes of a type of pair, for pair::opcodes.
std::uint32_t opcodes_of(ibv_qp_type type) noexcept;

/// Fills vacant slots with a list of receives, and tells the kernel. 0, or an errno and *bad.
int put_receives(ring &into, turn &at, std::uint32_t most_pieces, ibv_recv_wr *list,
                 ibv_recv_wr **bad) noexcept;

/// Brings a pair to the error state, also where it is already: then receives of late are flushed.
int break_pair(pair &own) noexcept;

/// A completion of the pair of that number says that the kernel has brought it there.
void found_broken(context &of, std::uint32_t number) noexcept;

} // namespace coherdma::provider::rxe
