// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What this process has, as the kernel tells it.

#pragma once

#include <chrono>
#include <cstddef>
#include <sys/resource.h>
#include <thread>

namespace conform {

std::size_t count_open_files();
std::size_t count_threads();
std::size_t count_resident_pages();

/// Whether that comes true soon: the kernel may take note a moment after a call has returned.
template <class Condition>
bool wait_until(const Condition &condition) {
    for (int i = 0; i < 1000; ++i) {
        if (condition())
            return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return condition();
}

/// While it lives, this process may pin only so many bytes, root or not.
class memlock_limit {
  public:
    explicit memlock_limit(std::size_t bytes);
    ~memlock_limit();
    memlock_limit(const memlock_limit &) = delete;
    memlock_limit &operator=(const memlock_limit &) = delete;

  private:
    rlimit old_limit_{};
};

} // namespace conform
