// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A ring in memory that program and kernel share: slots of one size, the index of the next slot to
// be filled, which the producer alone writes, and that of the next to be emptied, which the
// consumer alone writes. Equal indices: it is empty; so one slot is never used. Of requests the
// program is the producer, of completions the consumer.
//
// Ordering. A slot belongs to the consumer from when the producer's index has gone beyond it until
// the consumer's has, else to the producer; nobody touches another's. So each side stores its index
// with release, after its last access to the slot, and loads the other's with acquire, before its
// first: the load that sees the new index sees all that was written to the slot before (or, the
// other way round, comes after all that was read from it). The kernel does the same. The store and
// the load are on the same word, so this holds on processors that order weakly, and no fence is
// needed. The kernel changes requests where they are while it works on them: the program neither
// writes nor reads a slot between publish() and the consumer's passing it.
//
// Indices are stored masked, as the kernel wants them. What comes from the kernel is masked again
// here, so whatever it says, only slots are accessed. The program's own index is kept in private
// memory, and is what counts.
#pragma once

#include "kernel.hpp"

#include <atomic>
#include <cstdint>

namespace coherdma::provider::rxe {

struct ring {
    ring_head *head; ///< nullptr: it is not mapped
    std::size_t mapped;
    std::uint32_t mask, log2_slot;
    std::uint32_t own;       ///< the next slot of ours
    std::uint32_t published; ///< what the kernel knows of it
    std::uint32_t other;     ///< the kernel's index as it was once seen

    /// Maps what the kernel made, with slots of at least so many bytes. 0, or an errno.
    int map(int fd, const place &where, std::size_t slot) noexcept;
    void unmap() noexcept;
    /// Takes both indices as they are in shared memory. The kernel must not be at work on it.
    void start_over(bool producer) noexcept;

    /// Of an index that is masked.
    void *slot(std::uint32_t index) const noexcept {
        auto *const bytes = reinterpret_cast<unsigned char *>(head) + sizeof(ring_head);
        return bytes + (static_cast<std::size_t>(index) << log2_slot);
    }
    std::uint32_t next(std::uint32_t index) const noexcept { return (index + 1) & mask; }

    /// As producer: whether there is a slot to fill. Then slot(own), filled(), and at last
    /// publish().
    bool vacant() noexcept {
        if (next(own) != other) [[likely]]
            return true;
        other = load(head->consumer);
        return next(own) != other;
    }
    void filled() noexcept { own = next(own); }

    /// As consumer: a slot to read, or nullptr. Then emptied(), and at last give_back().
    void *occupied() noexcept {
        if (own == other) {
            other = load(head->producer);
            if (own == other)
                return nullptr;
        }
        return slot(own);
    }
    void emptied() noexcept { own = next(own); }
    /// As consumer: the kernel may fill again what was emptied.
    void give_back() noexcept {
        std::atomic_ref(head->consumer).store(own, std::memory_order_release);
    }

    /// As producer: whether there was anything to tell the kernel.
    bool publish() noexcept {
        if (published == own)
            return false;
        published = own;
        std::atomic_ref(head->producer).store(own, std::memory_order_release);
        return true;
    }

    /// As consumer: how many slots there are to read, as it is now.
    std::uint32_t ready() const noexcept {
        const std::uint32_t filled_to =
            std::atomic_ref(head->producer).load(std::memory_order_acquire);
        return (filled_to - own) & mask;
    }

  private:
    std::uint32_t load(std::uint32_t &index) const noexcept {
        return std::atomic_ref(index).load(std::memory_order_acquire) & mask;
    }
};

} // namespace coherdma::provider::rxe
