// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Small programs, each with a fault that a schedule shows, or without one.

#include "schedule.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace {

void lost_update() {
    std::atomic<int> counter = 0;
    const auto increment = [&] {
        counter.store(counter.load() + 1);
    };
    std::thread other(increment);
    increment();
    other.join();
    schedule::require(counter == 2, "an update is lost");
}

void lost_plain_update() {
    int counter = 0;
    const auto increment = [&] {
        ++counter;
    };
    std::thread other(increment);
    increment();
    other.join();
    schedule::require(counter == 2, "an update is lost");
}

void locked_update() {
    int counter = 0;
    std::mutex mutex;
    const auto increment = [&] {
        const std::lock_guard guard(mutex);
        ++counter;
    };
    std::thread other(increment);
    increment();
    other.join();
    schedule::require(counter == 2, "an update is lost");
}

void locks_in_two_orders() {
    std::mutex first, second;
    std::thread other([&] {
        const std::lock_guard outer(second);
        const std::lock_guard inner(first);
    });
    {
        const std::lock_guard outer(first);
        const std::lock_guard inner(second);
    }
    other.join();
}

void missed_wake() {
    std::mutex mutex;
    std::condition_variable changed;
    std::atomic<bool> is_ready = false;
    std::thread waiter([&] {
        if (!is_ready) {
            std::unique_lock lock(mutex);
            changed.wait(lock);
        }
    });
    is_ready = true; // between the waiter's look and its wait
    changed.notify_one();
    waiter.join();
}

// The other thread must go on between three steps of this one.
void reused_slot() {
    std::atomic<int> owner = 0, value = 0;
    std::thread user([&] {
        if (owner == 1) {
            const int seen = value;
            schedule::require(owner != 1 || seen == value, "the slot has changed under its owner");
        }
    });
    owner = 1;
    value = 1;
    owner = 2;
    value = 2;
    owner = 1;
    user.join();
}

void endless_loops() {
    std::atomic<bool> is_first_ready = false, is_second_ready = false;
    std::thread other([&] {
        while (!is_first_ready)
            std::this_thread::yield();
        is_second_ready = true;
    });
    while (!is_second_ready)
        std::this_thread::yield();
    is_first_ready = true;
    other.join();
}

void left_thread() {
    std::thread([] {}).detach();
}

void null_pointer() {
    std::atomic<int *> shared = nullptr;
    int value = 0;
    std::thread other([&] { shared = &value; });
    int *volatile seen = shared; // too early
    *seen = 1;
    other.join();
}

void sleeps() {
    using std::chrono::steady_clock;
    const auto begin = steady_clock::now();
    std::thread other([] { std::this_thread::sleep_for(std::chrono::hours(2)); });
    std::this_thread::sleep_for(std::chrono::hours(1));
    const auto middle = steady_clock::now();
    other.join();
    schedule::require(middle - begin >= std::chrono::hours(1), "woken too early");
    schedule::require(steady_clock::now() - begin >= std::chrono::hours(2), "woken too early");
    schedule::require(steady_clock::now() - begin < std::chrono::hours(3), "time ran on");
}

constexpr std::array PROGRAMS = {
    schedule::program{"lost_update", lost_update},
    schedule::program{"lost_plain_update", lost_plain_update},
    schedule::program{"locked_update", locked_update},
    schedule::program{"locks_in_two_orders", locks_in_two_orders},
    schedule::program{"missed_wake", missed_wake},
    schedule::program{"reused_slot", reused_slot},
    schedule::program{"endless_loops", endless_loops},
    schedule::program{"left_thread", left_thread},
    schedule::program{"null_pointer", null_pointer},
    schedule::program{"sleeps", sleeps},
};

} // namespace

int main(int argc, char **argv) {
    return schedule::run_programs(argc, argv, PROGRAMS);
}
