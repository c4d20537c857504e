// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Rings in memory that program and kernel share. They have no indices: each slot has a flag that
// says whose it is, both sides go round by themselves, and a ring has a power of two of slots, so
// that their counters may overflow.
//
// Requests: a slot whose flags are 0 is the program's. It fills it and then stores the flags with
// VALID, and by that gives it to the kernel, which copies it and stores 0. Completions: a slot with
// VALID is the program's, which copies it and then stores 0.
//
// Ordering. Whoever gives a slot away stores the flags with release, after the last access to it;
// who takes one loads them with acquire, before the first. Store and load are on the same word, so
// this holds on processors that order weakly, as far as the program goes. The kernel clears flags
// of requests with a full barrier, but sets those of completions by a plain store (up to 7.2 at
// least): on such a processor it might be seen before what it stands for, which nobody can mend
// from here.
//
// Nothing from the kernel is used as an index.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <infiniband/verbs.h>
#include <rdma/siw-abi.h>

namespace coherdma::provider::siw {

/// Shared memory with slots of one size. 0, or an errno.
struct mapping {
    unsigned char *memory; ///< nullptr: it is not mapped
    std::size_t size;
    std::uint32_t mask;

    int map(int fd, std::uint64_t key, std::uint32_t slots, std::size_t slot,
            std::size_t behind = 0) noexcept;
    void unmap() noexcept;
};

/// What is at the beginning of a request to send and of a receive.
struct request {
    std::uint64_t id;
    std::uint16_t flags;
    std::uint8_t pieces;
    std::uint8_t opcode;
};
static_assert(offsetof(request, flags) == offsetof(siw_sqe, flags));
static_assert(offsetof(request, flags) == offsetof(siw_rqe, flags));
static_assert(offsetof(request, opcode) == offsetof(siw_sqe, opcode));

inline std::uint16_t flags_of(request &slot) noexcept {
    return std::atomic_ref(slot.flags).load(std::memory_order_acquire);
}
inline void give(request &slot, std::uint16_t flags) noexcept {
    std::atomic_ref(slot.flags).store(flags, std::memory_order_release);
}

/// Of requests, for whoever posts.
struct requests {
    mapping at;
    std::uint32_t stride;
    std::uint32_t own; ///< all before this one are given to the kernel

    request &slot(std::uint32_t number) const noexcept {
        return *reinterpret_cast<request *>(at.memory +
                                            std::size_t{number & at.mask} * std::size_t{stride});
    }
    /// A slot to fill, or nullptr.
    request *vacant(std::uint32_t number) const noexcept {
        request &wanted = slot(number);
        return number - own <= at.mask && flags_of(wanted) == 0 ? &wanted : nullptr;
    }
    /// Who flushes, on another thread, looks at it.
    void given_until(std::uint32_t number) noexcept {
        std::atomic_ref(own).store(number, std::memory_order_release);
    }
};

/// A pair's requests of one kind. When the pair is broken, whoever polls takes what the kernel has
/// left in the ring, as completions, one at a time: then the poller is what the kernel was.
struct half {
    requests ring;
    std::uint32_t flushed; ///< the next to be taken
    bool receives;
    std::uint32_t pair; ///< its number
    half *next;         ///< in the list of the queue it is flushed to
};

struct completions {
    mapping at;
    std::uint32_t own; ///< the next to be taken
    siw_cq_ctrl *control;

    siw_cqe &slot(std::uint32_t number) const noexcept {
        return reinterpret_cast<siw_cqe *>(at.memory)[number & at.mask];
    }
    /// The kernel's flags of the next one.
    std::uint8_t flags() const noexcept {
        return std::atomic_ref(slot(own).flags).load(std::memory_order_acquire);
    }
};

} // namespace coherdma::provider::siw
