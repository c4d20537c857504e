// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <vector>

namespace fake {

/// Memory of one kind of objects. The next object gets the memory of the last one that was
/// destroyed, as from a malloc() that keeps freed memory for the thread.
template <class object>
class object_pool {
  public:
    /// In zeroed memory.
    object &create() { return *new (std::memset(take(), 0, sizeof(object))) object{}; }
    void destroy(object &destroyed) {
        destroyed.~object();
        const std::lock_guard guard(mutex_);
        free_.push_back(&destroyed);
    }

  private:
    void *take() {
        const std::lock_guard guard(mutex_);
        if (free_.empty())
            return ::operator new(sizeof(object));
        void *const memory = free_.back();
        free_.pop_back();
        return memory;
    }

    std::mutex mutex_;
    std::vector<void *> free_;
};

/// Never destroyed: other threads use objects while one is in exit().
template <class object>
object_pool<object> &pool() {
    static auto &created = *new object_pool<object>;
    return created;
}

} // namespace fake
