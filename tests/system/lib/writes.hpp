// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Counts the doorbell system calls of this process: write() and syscall() of the C library are
// replaced by functions that count and then call them.

#pragma once

#include "fault_runner.hpp"

#include <functional>

namespace verbs_test {

/// How often a doorbell was rung: IB_USER_VERBS_CMD_POST_SEND.
unsigned num_doorbells() noexcept;

/// Called during each doorbell; set only while no thread posts.
extern std::function<void()> during_doorbell;

/// Whether a second thread can post to a QP (post_other) while the first one (post_first) rings the
/// doorbell.
template <class First, class Other>
bool can_post_during_doorbell(const First &post_first, const Other &post_other);

} // namespace verbs_test

#include <atomic>
#include <chrono>
#include <thread>

template <class First, class Other>
bool verbs_test::can_post_during_doorbell(const First &post_first, const Other &post_other) {
    // The first thread's doorbell waits until the second thread has posted. A second thread that
    // cannot post meanwhile makes the doorbell wait for trial_timeout().
    using clock = std::chrono::steady_clock;
    std::atomic<bool> entered{false}, posted{false}, posted_during_doorbell{false};
    const auto wait_for = [](const std::atomic<bool> &flag) {
        const auto deadline = clock::now() + trial_timeout();
        while (!flag && clock::now() < deadline)
            std::this_thread::sleep_for(milliseconds(1));
        return flag.load();
    };
    during_doorbell = [&] {
        if (!entered.exchange(true))
            posted_during_doorbell = wait_for(posted);
    };
    std::thread thread([&] {
        if (wait_for(entered))
            post_other();
        posted = true;
    });
    post_first();
    thread.join();
    during_doorbell = nullptr;
    return entered && posted_during_doorbell;
}
