// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The queues of rdma_rxe in memory shared with the kernel. A queue has entries of equal size, a
// producer index and a consumer index.
//
// Protocol:
// - The program produces WQEs and consumes CQEs; the kernel does the opposite.
// - Each side writes its own index only. The program has a private copy of that index, for the WQEs
//   not yet published and the CQEs not yet returned. Each call begins with the shared index: after
//   a fork(), the other process may have moved it.
// - Entries from the consumer index up to the producer index belong to the consumer, the others to
//   the producer. Neither side accesses entries of the other. The program does not read a WQE after
//   publish() either: the kernel changes it until its consumer index has passed it.
// - Equal indices mean that the queue is empty, so one entry is always unused. A queue of length
//   zero has one entry.
// - Both sides store masked indices. The program also masks the kernel's indices, so that an
//   invalid index does not lead outside the queue.
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
    /// Maps the queue that the kernel has put in place of this one, and uses no longer. Returns 0
    /// or an errno; then this is a queue that is empty and full, with which the kernel does
    /// nothing.
    int replace(int fd, const mminfo &mi, std::size_t min_elem_size) noexcept;
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
    // Ordering: acquire, before the first access to the entry. The kernel stores its index with
    // release, after its last access.
    std::uint32_t load_index(std::uint32_t &shared_index) const noexcept {
        return std::atomic_ref(shared_index).load(std::memory_order_acquire) & index_mask;
    }
};

/// The ring of an SQ, RQ or SRQ.
struct wq_ring : ring {
    std::uint32_t prod;           ///< the next WQE to write
    std::uint32_t prod_published; ///< the producer index that the kernel sees
    std::uint32_t cons;           ///< the kernel's index when it was last loaded

    /// Loads both indices from shared memory.
    void reset() noexcept;
    /// Continues after the WQEs that another process with this ring has published. All WQEs of this
    /// process are published.
    void adopt_producer() noexcept {
        const std::atomic_ref producer_index(buf->producer_index);
        if (producer_index.load(std::memory_order_relaxed) != prod_published) [[unlikely]]
            reset();
    }
    bool is_full() noexcept {
        if (next_index(prod) != cons) [[likely]]
            return false;
        cons = load_index(buf->consumer_index);
        return next_index(prod) == cons;
    }
    /// The number of WQEs that are published and not taken by the kernel.
    std::uint32_t num_posted() const noexcept {
        return (std::atomic_ref(buf->producer_index).load(std::memory_order_relaxed) -
                load_index(buf->consumer_index)) &
               index_mask;
    }
    void *next_wqe() const noexcept { return entry(prod); }
    void advance_producer() noexcept { prod = next_index(prod); }
    /// Publishes the WQEs written so far to the kernel.
    void publish() noexcept {
        prod_published = prod;
        // Ordering: release, after the WQEs were written; the kernel loads it with acquire.
        std::atomic_ref(buf->producer_index).store(prod, std::memory_order_release);
    }
    /// The same. False: there are none.
    bool publish_new() noexcept {
        if (prod_published == prod)
            return false;
        publish();
        return true;
    }
};

/// The ring of a CQ.
struct cq_ring : ring {
    std::uint32_t cons; ///< the next CQE to read, between reset() and publish_consumer()

    /// Continues after the CQEs that this process, or another with this ring, has returned.
    void reset() noexcept { cons = load_consumer(); }
    std::uint32_t load_consumer() const noexcept { return load_index(buf->consumer_index); }
    /// The number of CQEs to read from an index on. The kernel's index is not cached: a cached
    /// index that cons has passed would make the ring look full.
    std::uint32_t num_ready(std::uint32_t begin) const noexcept {
        // Ordering: as in load_index().
        const std::uint32_t prod =
            std::atomic_ref(buf->producer_index).load(std::memory_order_acquire);
        return (prod - begin) & index_mask;
    }
    /// The next CQE, or nullptr.
    void *peek() const noexcept { return num_ready(cons) != 0 ? entry(cons) : nullptr; }
    void advance_consumer() noexcept { cons = next_index(cons); }
    /// Returns the CQEs before an index to the kernel.
    void return_cqes(std::uint32_t end) const noexcept {
        // Ordering: release, after the CQEs were read; the kernel loads it with acquire.
        std::atomic_ref(buf->consumer_index).store(end, std::memory_order_release);
    }
    /// Returns the CQEs read so far to the kernel.
    void publish_consumer() const noexcept { return_cqes(cons); }
};

} // namespace coherdma::provider::rxe
