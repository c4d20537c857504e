// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A queue in memory shared with the kernel: entries of equal size, the producer index, written by
// the producer only, and the consumer index, written by the consumer only. Equal indices mean
// empty, so one entry is always unused: in a queue of length zero, its only one. The program
// produces WQEs and consumes CQEs.
//
// Protocol:
// - An entry belongs to the consumer once the producer index has passed it, until the consumer
//   index has; then to the producer. Neither side touches the other's entries.
// - The kernel changes WQEs in place while it processes them: the program neither reads nor writes
//   a WQE between publish() and the kernel's consumer index passing it.
// - Indices are stored masked, as the kernel expects. Those loaded from the kernel are masked too,
//   so that an invalid index cannot lead outside the queue. The program uses its private copy of
//   the index that it writes, not the one in shared memory.
#pragma once

#include "rxe_abi.hpp"

#include <atomic>
#include <cstdint>

namespace coherdma::provider::rxe {

struct ring {
    rxe_queue_buf *buf; ///< nullptr: not mapped
    std::size_t mapped_size;
    std::uint32_t index_mask, log2_elem_size;

    /// Maps a queue that the kernel allocated. Its entries must have at least min_elem_size bytes.
    /// Returns 0 or an errno.
    int map(int fd, const mminfo &mi, std::size_t min_elem_size) noexcept;
    void unmap() noexcept;

    bool is_mapped() const noexcept { return buf != nullptr; }
    void *entry(std::uint32_t index) const noexcept {
        auto *const entries = reinterpret_cast<unsigned char *>(buf) + sizeof(rxe_queue_buf);
        return entries + (static_cast<std::size_t>(index) << log2_elem_size);
    }
    std::uint32_t next_index(std::uint32_t index) const noexcept {
        return (index + 1) & index_mask;
    }

  protected:
    // Ordering: the acquire pairs with the other side's release store of its index after its last
    // access to the entry. Both are on one word, so this holds on weakly ordered CPUs too.
    std::uint32_t load_index(std::uint32_t &shared_index) const noexcept {
        return std::atomic_ref(shared_index).load(std::memory_order_acquire) & index_mask;
    }
};

/// The ring of an SQ, RQ or SRQ.
struct wq_ring : ring {
    std::uint32_t prod;           ///< the next WQE to write
    std::uint32_t prod_published; ///< the producer index that the kernel sees
    std::uint32_t cons;           ///< the kernel's index when it was last loaded

    /// Takes both indices from shared memory. The kernel must not be processing the queue.
    void reset() noexcept {
        cons = load_index(buf->consumer_index);
        prod = prod_published = load_index(buf->producer_index);
    }
    bool is_full() noexcept {
        if (next_index(prod) != cons) [[likely]]
            return false;
        cons = load_index(buf->consumer_index);
        return next_index(prod) == cons;
    }
    void *next_wqe() const noexcept { return entry(prod); }
    void advance_producer() noexcept { prod = next_index(prod); }
    /// Shows the kernel the WQEs written so far. Returns false if no WQE is new.
    bool publish() noexcept {
        if (prod_published == prod)
            return false;
        prod_published = prod;
        // Ordering: release, after the WQEs were written; the kernel loads it with acquire.
        std::atomic_ref(buf->producer_index).store(prod, std::memory_order_release);
        return true;
    }
};

/// The ring of a CQ.
struct cq_ring : ring {
    std::uint32_t cons; ///< the next CQE to read

    /// Takes the consumer index from shared memory. The kernel must not be processing the queue.
    void reset() noexcept { cons = load_index(buf->consumer_index); }
    /// The number of CQEs to read. The kernel's index is not cached: poll_cq() reads entries
    /// without updating a cache, which would then lag behind cons and make the whole ring look
    /// filled.
    std::uint32_t num_ready() const noexcept {
        // Ordering: as in load_index().
        const std::uint32_t prod =
            std::atomic_ref(buf->producer_index).load(std::memory_order_acquire);
        return (prod - cons) & index_mask;
    }
    /// The next CQE, or nullptr.
    void *peek() const noexcept { return num_ready() != 0 ? entry(cons) : nullptr; }
    void advance_consumer() noexcept { cons = next_index(cons); }
    /// Returns the CQEs read so far to the kernel.
    void update_consumer() noexcept {
        // Ordering: release, after the CQEs were read; the kernel loads it with acquire.
        std::atomic_ref(buf->consumer_index).store(cons, std::memory_order_release);
    }
};

} // namespace coherdma::provider::rxe
