// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What waits for something, in order: dapl/ring.hpp, queue.hpp; and for how long: clock.hpp.

#include "dapl/clock.hpp"
#include "dapl/queue.hpp"
#include "dapl/ring.hpp"

#include <array>
#include <atomic>
#include <csetjmp>
#include <cstdarg>
#include <deque>
#include <thread>
#include <vector>

extern "C" {
#include <cmocka.h>
}

namespace {

using namespace coherdma::dapl;

record *post(ring &in) {
    record *const one = in.next();
    if (one != nullptr)
        in.posted(*one);
    return one;
}

void complete(ring &in, record &one) {
    const std::uint64_t number = in.awaited(one);
    assert_int_not_equal(number, 0);
    in.completed(one, number);
}

void a_ring_has_room_for_what_was_asked(void **) {
    for (const std::uint32_t most : {1U, 2U, 3U, 7U, 8U, 100U, 4096U}) {
        ring in;
        assert_true(in.make(most));
        in.open();
        assert_int_equal(in.capacity(), most);
        assert_int_equal(in.outstanding(), 0);
        std::vector<record *> all;
        for (std::uint32_t n = 0; n != most; ++n) {
            all.push_back(post(in));
            assert_non_null(all.back());
            assert_int_equal(in.outstanding(), n + 1);
        }
        assert_null(in.next());
        // Round and round, each place in its turn.
        for (std::uint32_t n = 0; n != 3 * most; ++n) {
            complete(in, *all[n % most]);
            all[n % most] = post(in);
            assert_non_null(all[n % most]);
            assert_null(in.next());
        }
    }
    ring none;
    assert_true(none.make(0));
    none.open();
    assert_null(none.next());
}

void a_completion_ends_all_before_it(void **) {
    ring in;
    assert_true(in.make(8));
    in.open();
    for (int round = 0; round != 5; ++round) {
        std::array<record *, 6> all;
        for (record *&each : all)
            each = post(in);
        complete(in, *all[3]);
        assert_int_equal(in.outstanding(), 2);
        complete(in, *all[4]);
        assert_int_equal(in.outstanding(), 1);
        complete(in, *all[5]);
        assert_int_equal(in.outstanding(), 0);
    }
    for (int n = 0; n != 8; ++n)
        post(in);
    record *const last = nullptr;
    assert_ptr_equal(in.next(), last);
    in.forget();
    assert_int_equal(in.outstanding(), 0);
    assert_non_null(in.next());
}

// Its end was told, or that of one after it; or nobody posted it.
void the_end_of_a_record_is_told_once(void **) {
    ring in;
    assert_true(in.make(4));
    in.open();
    for (int round = 0; round != 9; ++round) {
        std::array<record *, 4> all;
        for (record *&each : all)
            each = post(in);
        complete(in, *all[2]);
        assert_int_equal(in.awaited(*all[2]), 0);
        assert_false(in.end(*all[2]));
        assert_int_equal(in.awaited(*all[0]), 0); // it was overtaken
        assert_int_equal(in.outstanding(), 1);
        assert_true(in.end(*all[0]));
        assert_false(in.end(*all[0]));
        assert_int_equal(in.outstanding(), 1);
        assert_true(in.end(*all[3]));
        assert_false(in.end(*all[3]));
        assert_int_equal(in.outstanding(), 0);
        record *const refused = post(in);
        in.not_posted();
        assert_int_equal(in.awaited(*refused), 0);
        assert_false(in.end(*refused));
        record *const future = in.next();
        assert_int_equal(in.awaited(*future), 0);
        assert_false(in.end(*future));
        assert_int_equal(in.outstanding(), 0);
    }
}

void what_was_refused_is_not_there(void **) {
    ring in;
    assert_true(in.make(2));
    in.open();
    record *const first = post(in), *const second = post(in);
    in.not_posted();
    assert_int_equal(in.outstanding(), 1);
    assert_ptr_equal(post(in), second);
    complete(in, *first);
    complete(in, *second);
    assert_int_equal(in.outstanding(), 0);
}

void one_posts_while_another_completes(void **) {
    ring in;
    assert_true(in.make(16));
    in.open();
    constexpr std::uint64_t many = 50000;
    // The device in between: what is posted comes out, in order.
    std::array<std::atomic<record *>, 16> device = {};
    std::atomic<unsigned> wrong = 0;
    std::thread poster([&] {
        for (std::uint64_t n = 0; n != many;) {
            record *const one = in.next();
            if (one == nullptr || device[n % 16].load(std::memory_order_acquire) != nullptr) {
                std::this_thread::yield();
                continue;
            }
            one->told.user_cookie.as_64 = n;
            in.posted(*one);
            device[n++ % 16].store(one, std::memory_order_release);
        }
    });
    for (std::uint64_t n = 0; n != many;) {
        record *const one = device[n % 16].load(std::memory_order_acquire);
        if (one == nullptr) {
            std::this_thread::yield();
            continue;
        }
        wrong += one->told.user_cookie.as_64 != n;
        wrong += in.outstanding() == 0 || in.outstanding() > 16;
        device[n++ % 16].store(nullptr, std::memory_order_release);
        complete(in, *one);
    }
    poster.join();
    assert_int_equal(wrong, 0);
    assert_int_equal(in.outstanding(), 0);
}

void events_come_out_as_they_went_in(void **) {
    event_queue in;
    std::deque<DAT_EVENT_NUMBER> as_should_be;
    unsigned number = 0;
    assert_true(in.empty());
    for (unsigned round = 0; round != 400; ++round) {
        for (unsigned n = 0; n != round % 23; ++n) {
            assert_true(in.room());
            in.back() = {};
            in.back().event_number = static_cast<DAT_EVENT_NUMBER>(++number);
            in.pushed();
            as_should_be.push_back(static_cast<DAT_EVENT_NUMBER>(number));
        }
        for (unsigned n = 0; n != round % 19 && !in.empty(); ++n) {
            assert_int_equal(in.front().event_number, as_should_be.front());
            in.pop();
            as_should_be.pop_front();
        }
        assert_int_equal(in.size(), as_should_be.size());
        assert_int_equal(in.empty(), as_should_be.empty());
    }
    for (; !in.empty(); in.pop(), as_should_be.pop_front())
        assert_int_equal(in.front().event_number, as_should_be.front());
    assert_true(as_should_be.empty());
}

void a_deadline_passes_once_and_for_all(void **) {
    deadline never(DAT_TIMEOUT_INFINITE);
    assert_false(never.passed());
    assert_null(never.left());
    deadline at_once(0);
    assert_true(at_once.passed());
    assert_int_equal(at_once.left()->tv_sec, 0);
    assert_int_equal(at_once.left()->tv_nsec, 0);
    deadline later(2500000);
    assert_false(later.passed());
    assert_in_range(later.left()->tv_sec, 1, 2);
    assert_in_range(later.left()->tv_nsec, 0, 999999999);
    // As long as can be said, an hour and more: it does not wrap.
    deadline last(0xfffffffe);
    assert_false(last.passed());
    assert_in_range(last.left()->tv_sec, 4200, 4294);
    const std::int64_t before = deadline::now();
    deadline soon(20000);
    while (!soon.passed())
        std::this_thread::yield();
    assert_true(deadline::now() - before >= 20000000);
    assert_int_equal(soon.left()->tv_nsec, 0);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_has_room_for_what_was_asked),
        cmocka_unit_test(a_completion_ends_all_before_it),
        cmocka_unit_test(the_end_of_a_record_is_told_once),
        cmocka_unit_test(what_was_refused_is_not_there),
        cmocka_unit_test(one_posts_while_another_completes),
        cmocka_unit_test(events_come_out_as_they_went_in),
        cmocka_unit_test(a_deadline_passes_once_and_for_all),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
