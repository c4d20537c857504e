// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The base of all DAT objects: the IA, the reference count and the consumer context.
#pragma once

#include "arena.hpp"
#include "counter_set.hpp"
#include "result.hpp"

#include <cstdint>
#include <memory>

namespace coherdma::dapl {

class dapl_ia;

/// An object's pointer to its IA. Atomic: a call with a stale handle may read it while another
/// thread creates an object in the same slot. A stale pointer is harmless, since IAs are in slots.
class ia_pointer {
  public:
    explicit ia_pointer(dapl_ia &ia) noexcept {
        std::atomic_ref(ptr).store(&ia, std::memory_order_relaxed);
    }
    operator dapl_ia *() const noexcept {
        return std::atomic_ref(ptr).load(std::memory_order_relaxed);
    }
    dapl_ia *operator->() const noexcept { return *this; }

  private:
    mutable dapl_ia *ptr;
};

struct object : slot {
    explicit object(dapl_ia &parent) noexcept
        : ia(parent) {}
    object(const object &) = delete;
    object &operator=(const object &) = delete;

    /// Adds to one of the object's counters, if it has any.
    void count(unsigned counter) noexcept {
        if (counters != nullptr) [[unlikely]]
            counters->add(counter);
    }

    const ia_pointer ia;
    // Under the IA's lock:
    std::uint32_t refs = 0; ///< references by other objects, and by calls in progress
    object *next = nullptr; ///< in the IA's list of this type
    object **link = nullptr;

    std::atomic<DAT_UINT64> consumer_context = 0;
    std::unique_ptr<counter_set> counters; ///< of an IA, EP or EVD, see counter_set.hpp
};

} // namespace coherdma::dapl
