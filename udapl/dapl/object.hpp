// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What all objects of an IA have in common: the IA, the consumer's context, and how many others
// need them. These change under the IA's lock.
#pragma once

#include "arena.hpp"
#include "extensions/counters.hpp"
#include "result.hpp"

#include <cstdint>
#include <memory>

namespace coherdma::dapl {

class ia;

/// The IA of an object. Who calls with a handle that was freed may read it while the next object is
/// made in the same slot, so both are atomic. A stale IA does no more harm than the stale handle:
/// IAs live in slots, too.
class owner {
  public:
    explicit owner(ia &of) noexcept { std::atomic_ref(one).store(&of, std::memory_order_relaxed); }
    operator ia *() const noexcept { return std::atomic_ref(one).load(std::memory_order_relaxed); }
    ia *operator->() const noexcept { return *this; }

  private:
    mutable ia *one;
};

struct object : slot {
    explicit object(ia &of) noexcept
        : home(of) {}
    object(const object &) = delete;
    object &operator=(const object &) = delete;

    const owner home;
    std::uint32_t users = 0; ///< other objects that would break without this one
    object *next = nullptr;  ///< of the same kind, in the IA's list
    object **before = nullptr;
    std::atomic<DAT_UINT64> context = 0;
    std::unique_ptr<extensions::counters> counted; ///< of an IA, EP or EVD, if anything is
};

} // namespace coherdma::dapl
