// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Finds what the interposer knows of a verbs object by the object's address, on each post and poll.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <new>
#include <vector>

namespace coherdma::interposer {

/// Lookups take no lock and write nothing, so that threads that post to different QPs do not share
/// a cache line. A node is never freed and never leaves its bucket: a lookup can follow a chain
/// while other threads change it. Removed nodes are used again, by the same bucket.
template <class record>
class handle_table {
  public:
    /// Replaces what the table has for the handle. False: there is no memory.
    bool insert(const void *handle, record *value) noexcept {
        const std::lock_guard guard(mutex_);
        std::atomic<node *> &head = bucket_of(handle);
        node *used = nullptr; ///< that of the handle, else a removed one
        for (node *it = head.load(std::memory_order_relaxed); it != nullptr; it = it->next) {
            const void *const key = it->handle.load(std::memory_order_relaxed);
            if (key == handle || (key == nullptr && used == nullptr))
                used = it;
            if (key == handle)
                break;
        }
        const bool is_new = used == nullptr;
        if (is_new && (used = new (std::nothrow) node) == nullptr)
            return false;
        // Release: a lookup that sees the value sees what it points to.
        used->value.store(value, std::memory_order_release);
        // Release: a lookup that sees the handle sees the value.
        used->handle.store(handle, std::memory_order_release);
        if (is_new) {
            used->next = head.load(std::memory_order_relaxed);
            // Release: a lookup that sees the node sees its members.
            head.store(used, std::memory_order_release);
        }
        return true;
    }

    /// Nothing, if the table has another record for the handle by now.
    void remove(const void *handle, const record *value) noexcept {
        const std::lock_guard guard(mutex_);
        node *const match = find_node(handle);
        if (match != nullptr && match->value.load(std::memory_order_relaxed) == value)
            match->handle.store(nullptr, std::memory_order_relaxed);
    }

    record *find(const void *handle) const noexcept {
        const node *const match = handle != nullptr ? find_node(handle) : nullptr;
        // Acquire: pairs with the release in insert().
        return match != nullptr ? match->value.load(std::memory_order_acquire) : nullptr;
    }

    /// Of an object whose functions were replaced: the table has it while the object exists. A
    /// program that uses one that it has destroyed ends here.
    record &get(const void *handle) const noexcept {
        record *const match = find(handle);
        if (match == nullptr)
            std::abort();
        return *match;
    }

    /// In a child of fork(): a thread of the parent may have held the mutex.
    void reset_after_fork() noexcept { new (&mutex_) std::mutex; }

  private:
    struct node {
        std::atomic<const void *> handle = nullptr;
        std::atomic<record *> value = nullptr;
        node *next = nullptr; ///< does not change once the node is in its bucket
    };

    static constexpr std::size_t NUM_BUCKETS = 4096; // a power of 2

    static std::size_t index_of(const void *handle) noexcept {
        constexpr unsigned ALIGNMENT_BITS = 4, SPREAD_BITS = 12; // objects begin at such offsets
        const auto addr = reinterpret_cast<std::uintptr_t>(handle) >> ALIGNMENT_BITS;
        return (addr ^ (addr >> SPREAD_BITS)) & (NUM_BUCKETS - 1);
    }
    std::atomic<node *> &bucket_of(const void *handle) noexcept {
        return buckets_[index_of(handle)];
    }

    node *find_node(const void *handle) const noexcept {
        // Acquire, here and for the handle: pairs with the release in insert().
        node *match = buckets_[index_of(handle)].load(std::memory_order_acquire);
        while (match != nullptr && match->handle.load(std::memory_order_acquire) != handle)
            match = match->next;
        return match;
    }

    std::mutex mutex_; ///< held by insert() and remove()
    std::array<std::atomic<node *>, NUM_BUCKETS> buckets_{};
};

} // namespace coherdma::interposer
