// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The base of all DAT objects: the IA, the reference count and the consumer context.
#pragma once

#include "arena.hpp"
#include "result.hpp"

#include <atomic>
#include <cstdint>
#include <memory>

namespace coherdma::dapl {

class dapl_ia;

struct object : slot {
    explicit object(dapl_ia &parent) noexcept
        : ia(&parent) {}
    object(const object &) = delete;
    object &operator=(const object &) = delete;

    dapl_ia *const ia;
    // Under objects_lock:
    std::uint32_t refs = 0;  ///< references by other objects: the object cannot be freed
    object *next = nullptr;  ///< in the IA's list of this type
    object **link = nullptr; ///< what points to this object in that list
    /// Destroys an object that an abrupt close of its IA left, because objects of other IAs refer
    /// to it, when the last reference is dropped.
    void (*destroy_unreferenced)(object *) noexcept = nullptr;

    std::atomic<DAT_UINT64> consumer_context = 0;
};

} // namespace coherdma::dapl
