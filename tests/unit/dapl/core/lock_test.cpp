// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The mutex of dapl/core/lock.hpp: mutual exclusion, and waiters that sleep; and that of
// shared_mutex.hpp.

#include "dapl/core/lock.hpp"
#include "dapl/core/shared_mutex.hpp"
#include "fake/thread_state.hpp"

#include <atomic>
#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

extern "C" {
#include <cmocka.h>
#include <unistd.h>
}

namespace {

using namespace coherdma::dapl;

void lock_excludes_other_threads(void **) {
    mutex lock;
    std::uint64_t sum = 0; // not atomic: a missing lock is detected
    constexpr unsigned num_threads = 6, num_rounds = 20000;
    std::vector<std::thread> threads;
    for (unsigned n = 0; n != num_threads; ++n)
        threads.emplace_back([&] {
            for (unsigned round = 0; round != num_rounds; ++round) {
                const std::lock_guard held(lock);
                sum = sum + 1;
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    assert_int_equal(sum, std::uint64_t{num_threads} * num_rounds);
}

template <class Condition>
bool wait_until(const Condition &condition) {
    for (int tries = 0; tries != 60000; ++tries) {
        if (condition())
            return true;
        usleep(1000);
    }
    return false;
}

// Waiters sleep in the kernel until the mutex is unlocked, without polling.
void lock_waiters_sleep_until_unlock(void **) {
    mutex lock;
    lock.lock();
    std::atomic<int> inside = 0;
    std::deque<fake::named_thread> waiters;
    for (int n = 0; n != 4; ++n)
        waiters.emplace_back([&] {
            const std::lock_guard held(lock);
            ++inside;
        });
    for (const fake::named_thread &waiter : waiters)
        assert_true(wait_until([&waiter] { return waiter.is_asleep(); }));
    std::vector<unsigned long> switches;
    for (const fake::named_thread &waiter : waiters)
        switches.push_back(waiter.switches());
    usleep(100000);
    for (std::size_t n = 0; n != waiters.size(); ++n) {
        assert_true(waiters[n].is_asleep());
        assert_int_equal(waiters[n].switches(), switches[n]);
    }
    assert_int_equal(inside, 0);
    lock.unlock();
    for (fake::named_thread &waiter : waiters)
        waiter.join();
    assert_int_equal(inside, 4);
    lock.lock(); // unlocked again
    lock.unlock();
}

void waiting_writer_goes_before_readers(void **) {
    shared_mutex lock;
    lock.lock_shared();
    std::atomic<bool> has_written = false;
    std::thread writer([&] {
        const std::lock_guard held(lock);
        has_written = true;
    });
    bool reader_waits = false;
    for (int attempt = 0; attempt != 1000000 && !reader_waits;
         ++attempt) { // until the writer waits
        if (lock.try_lock_shared())
            lock.unlock_shared();
        else
            reader_waits = true;
        std::this_thread::yield();
    }
    assert_true(reader_waits);
    assert_false(has_written);
    lock.unlock_shared();
    lock.lock_shared(); // after the writer
    assert_true(has_written);
    lock.unlock_shared();
    writer.join();
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(lock_excludes_other_threads),
        cmocka_unit_test(lock_waiters_sleep_until_unlock),
        cmocka_unit_test(waiting_writer_goes_before_readers),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
