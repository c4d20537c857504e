// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "dapl/core/shared_mutex.hpp"

#include <cstdint>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <unordered_map>

namespace coherdma::dapl {

/// Finds an object by a 32-bit key (lkey, rkey, QP number).
template <class object>
class index {
  public:
    /// Returns read_object(object) of the object, which is not removed meanwhile; nullptr: there is
    /// none. read_object must not use this index.
    template <class function>
    auto read(std::uint32_t key, function &&read_object) const noexcept {
        const std::shared_lock guard(lock);
        const auto it = objects.find(key);
        return read_object(it != objects.end() ? it->second : nullptr);
    }

    /// The object may be freed a moment later, so the caller has to look it up by this handle.
    object *find(std::uint32_t key) const noexcept {
        const std::shared_lock guard(lock);
        const auto it = objects.find(key);
        return it != objects.end() ? it->second : nullptr;
    }

    /// Replaces an object with the same key. False: out of memory.
    bool add(std::uint32_t key, object *obj) noexcept {
        const std::lock_guard guard(lock);
        try {
            objects.insert_or_assign(key, obj);
        } catch (const std::bad_alloc &) {
            return false;
        }
        return true;
    }

    /// Removes the object, if it has not been replaced.
    void remove(std::uint32_t key, const object *obj) noexcept {
        const std::lock_guard guard(lock);
        const auto it = objects.find(key);
        if (it != objects.end() && it->second == obj)
            objects.erase(it);
    }

  private:
    mutable shared_mutex lock;
    std::unordered_map<std::uint32_t, object *> objects;
};

} // namespace coherdma::dapl
