// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The objects of a siw device, each with libibverbs' part first, and the operations on them.
#pragma once

#include "common/bell.hpp"
#include "common/objects.hpp"
#include "common/pairs.hpp"
#include "ring.hpp"

#include <cstdint>
#include <rdma/ib_user_ioctl_verbs.h>

namespace coherdma::provider::siw {

struct pair;

struct context {
    ibv_context verbs;
    pairs<pair> all;
    std::uint8_t next_key; ///< of a region
};

struct queue {
    abi::verbs_cq verbs;
    turn polling;
    completions ring;
    bool suspects;           ///< one of the pairs that send to it is suspect
    std::uint64_t looked_at; ///< when those were, in nanoseconds
    half *broken;            ///< halves of pairs whose requests are flushed here, by next
    ibv_wc current;          ///< between start_poll and end_poll

    /// Whether the kernel is to cause an event for the next completion.
    bool armed() noexcept { return std::atomic_ref(ring.control->flags).load() != 0; }

    /// Whether there may be completions that are not in the ring.
    bool has_more() noexcept {
        return std::atomic_ref(broken).load(std::memory_order_acquire) != nullptr ||
               std::atomic_ref(suspects).load(std::memory_order_relaxed);
    }
};

struct shared {
    abi::verbs_srq verbs;
    turn posting;
    requests ring;
    std::uint32_t most_pieces;
};

struct pair {
    abi::verbs_qp verbs;
    pair *next;
    turn sending, receiving;
    half sends, receives; ///< the latter is not mapped if a shared queue is used
    bell ringing;
    std::uint32_t most_pieces_sent, most_pieces_received, most_inline;
    unsigned flags_always; ///< of the kernel's for requests
    bool heard;            ///< the kernel has once found it connected
    bool reading;          ///< the peer has allowed it to read
    bool suspect;      ///< the kernel was called and left a request: it is busy, or has given up
    bool broken;       ///< what is posted from now on is flushed here
    std::uint32_t end; ///< between wr_start and wr_complete: behind the last request,
    siw_sqe *building; ///< that request, or nullptr,
    int refused;       ///< and an errno if there is anything wrong with one
};

verbs_context *open(ibv_device *device, int fd, void *) noexcept;
verbs_context *import(ibv_device *device, int fd) noexcept;

void fill_pair(abi::operations &able) noexcept;
void fill_post(abi::operations &able) noexcept;
void fill_queue(abi::operations &able) noexcept;
void fill_region(abi::operations &able) noexcept;
void fill_shared(abi::operations &able) noexcept;

/// Gives a completion queue the functions to poll it by parts.
void extend(queue &own) noexcept;

/// Takes the next completion; false: there is none.
bool take(queue &from, ibv_wc &into) noexcept;
/// The same for the first one in a while: if there is none, suspects are looked at now and then.
bool take_first(queue &from, ibv_wc &into) noexcept;

/// Has the completions of a pair that are in a queue never polled.
void forget_completions(queue &of, const pair &whose) noexcept;

/// Gives a pair those of the functions to post by parts that are asked for.
void extend(pair &own, std::uint64_t operations) noexcept;

/// What a pair can, a bit for each ibv_wr_opcode.
inline constexpr std::uint64_t able_opcodes = 1U << IBV_WR_RDMA_WRITE | 1U << IBV_WR_RDMA_READ |
                                              1U << IBV_WR_SEND | 1U << IBV_WR_SEND_WITH_INV;

/// Fills vacant slots with a list of receives. 0, or an errno and *bad.
int put_receives(requests &into, turn &at, std::uint32_t most_pieces, ibv_recv_wr *list,
                 ibv_recv_wr **bad) noexcept;

/// The kernel does not work on a pair any more, or shall not: what it leaves is flushed from here.
void break_pair(pair &own) noexcept;

/// The same for the pair of a number, if there is still one.
void break_pair(context &of, std::uint32_t number) noexcept;

/// Breaks a pair, and whoever waits for an event of its queues gets one if there is anything to be
/// flushed. Not with a turn.
void break_and_wake(pair &own) noexcept;

/// The kernel was called for a request: has it left that?
void suspect(pair &own, std::uint32_t request) noexcept;

/// Asks for the state of the suspect pairs of a queue, and breaks those that are in error.
void look_at_suspects(queue &of) noexcept;

/// After something was posted on a broken pair: whoever waits for an event of the queue gets one.
void wake(queue &waiting, ibv_pd *domain) noexcept;

} // namespace coherdma::provider::siw
