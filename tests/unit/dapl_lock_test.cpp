// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// dapl/lock.hpp: one at a time, and nobody sleeps for ever.

#include "dapl/lock.hpp"

#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <ctime>
#include <thread>
#include <vector>

extern "C" {
#include <cmocka.h>
}

namespace {

using namespace coherdma::dapl;

void one_at_a_time(void **) {
    lock guard;
    std::uint64_t sum = 0; // not atomic: that is the test
    constexpr unsigned threads = 6, rounds = 20000;
    std::vector<std::thread> all;
    for (unsigned n = 0; n != threads; ++n)
        all.emplace_back([&] {
            for (unsigned round = 0; round != rounds; ++round) {
                const holding held(guard);
                sum = sum + 1;
            }
        });
    for (std::thread &each : all)
        each.join();
    assert_int_equal(sum, std::uint64_t{threads} * rounds);
}

std::int64_t processor_time() {
    timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec * 1000000000 + time.tv_nsec;
}

// Who finds it taken waits as long as it takes, and burns no processor.
void who_waits_sleeps(void **) {
    lock guard;
    guard.lock_it();
    std::atomic<int> inside = 0;
    std::vector<std::thread> all;
    const std::int64_t before = processor_time();
    for (int n = 0; n != 4; ++n)
        all.emplace_back([&] {
            const holding held(guard);
            ++inside;
        });
    const timespec pause = {0, 300000000};
    nanosleep(&pause, nullptr);
    assert_int_equal(inside, 0);
    assert_true(processor_time() - before < 200000000);
    guard.unlock();
    for (std::thread &each : all)
        each.join();
    assert_int_equal(inside, 4);
    // It is as it was: free.
    guard.lock_it();
    guard.unlock();
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(one_at_a_time),
        cmocka_unit_test(who_waits_sleeps),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
