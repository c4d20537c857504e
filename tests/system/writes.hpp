// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A look at what this process, with the provider it has loaded, writes to the kernel: write() and
// syscall() of the C library are replaced by ones that count and then do the same.

#pragma once

#include <functional>

namespace carry {

/// How often the kernel was asked to look at a queue of requests to send.
unsigned doorbells() noexcept;

/// Called in the midst of each such call; set while nobody posts.
extern std::function<void()> amid_doorbell;

/// Whether another thread can post to a queue (other) while one (first) is in such a call.
template <class one, class another>
bool can_post_amid(const one &first, const another &other);

} // namespace carry

#include <atomic>
#include <chrono>
#include <thread>

template <class one, class another>
bool carry::can_post_amid(const one &first, const another &other) {
    using clock = std::chrono::steady_clock;
    std::atomic<bool> entered{false}, posted{false}, meanwhile{false};
    const auto until = [](const std::atomic<bool> &is) {
        const auto limit = clock::now() + std::chrono::seconds(1);
        while (!is && clock::now() < limit)
            std::this_thread::yield();
        return is.load();
    };
    amid_doorbell = [&] {
        if (!entered.exchange(true))
            meanwhile = until(posted);
    };
    std::thread thread([&] {
        if (until(entered))
            other();
        posted = true;
    });
    first();
    thread.join();
    amid_doorbell = nullptr;
    return entered && meanwhile;
}
