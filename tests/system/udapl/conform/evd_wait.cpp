// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Event dispatchers: waiting for them.

#include "cases.hpp"
#include "test_ia.hpp"
#include "thread.hpp"

#include <atomic>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <unistd.h>

namespace conform {

namespace {

using clock = std::chrono::steady_clock;

struct waited {
    DAT_RETURN got;
    DAT_EVENT event;
    DAT_COUNT more;
    clock::duration took;
};

struct evd_wait_fixture {
    test_ia ia;
    unique_evd events = ia.create_evd(DAT_EVD_SOFTWARE_FLAG);

    void post(DAT_UINT64 pointer, source_location loc = current_location()) const {
        const DAT_EVENT event = make_software_event(pointer);
        require_success(dat_evd_post_se(events, &event), loc);
    }
    waited wait(DAT_TIMEOUT timeout, DAT_COUNT threshold = 1) const {
        poisoned<DAT_EVENT> event;
        DAT_COUNT more = -1;
        const auto start = clock::now();
        const DAT_RETURN got = dat_evd_wait(events, timeout, threshold, event.ptr(), &more);
        return {got, event.value(), more, clock::now() - start};
    }
    /// It returns this event at once, and so many are left.
    void gives(DAT_UINT64 pointer, DAT_COUNT more, DAT_COUNT threshold = 1,
               source_location loc = current_location()) const {
        const waited is_now = wait(0, threshold);
        require_success(is_now.got, loc);
        expect_eq(is_now.event.event_number, DAT_SOFTWARE_EVENT, "the event", loc);
        expect_eq(is_now.event.evd_handle, events, "its EVD", loc);
        expect_eq(software_event_pointer(is_now.event), pointer, "its pointer", loc);
        expect_eq(is_now.more, more, "the number of events left", loc);
    }
};

void lasts(const waited &is_now, milliseconds time, source_location loc = current_location()) {
    expect_return(is_now.got, timeout_expired, loc);
    const auto took = std::chrono::duration_cast<std::chrono::microseconds>(is_now.took);
    expect_true(took >= time, concat("it returned after ", took.count(), " us already"), loc);
}

void wrong_arguments(case_list &cases) {
    add_case(cases, "evd_wait.threshold_not_positive", [] {
        const evd_wait_fixture fixture;
        expect_return(fixture.wait(0, 0).got, invalid_parameter(3));
        expect_return(fixture.wait(0, -1).got, invalid_parameter(3));
    });
    add_case(cases, "evd_wait.threshold_too_large", [] {
        const evd_wait_fixture fixture;
        DAT_EVD_PARAM is_now{};
        require_success(dat_evd_query(fixture.events, DAT_EVD_FIELD_EVD_QLEN, &is_now));
        expect_return(fixture.wait(0, is_now.evd_qlen + 1).got, invalid_parameter(3));
        expect_return(fixture.wait(0, is_now.evd_qlen).got, timeout_expired);
    });
    add_case(cases, "evd_wait.event_null", [] {
        const evd_wait_fixture fixture;
        DAT_COUNT more = 0;
        expect_return(dat_evd_wait(fixture.events, 0, 1, nullptr, &more), invalid_parameter(4));
    });
    add_case(cases, "evd_wait.more_null", [] {
        const evd_wait_fixture fixture;
        DAT_EVENT event{};
        expect_return(dat_evd_wait(fixture.events, 0, 1, &event, nullptr), invalid_parameter(5));
    });
    add_case(cases, "evd_wait.wrong_loses_nothing", [] {
        const evd_wait_fixture fixture;
        fixture.post(1);
        fixture.wait(0, 0);
        DAT_COUNT more = 0;
        dat_evd_wait(fixture.events, 0, 1, nullptr, &more);
        fixture.gives(1, 0);
    });
}

void timeouts(case_list &cases) {
    add_case(cases, "evd_wait.poll", [] {
        const evd_wait_fixture fixture;
        lasts(fixture.wait(0), milliseconds(0));
        fixture.post(7);
        fixture.gives(7, 0);
    });
    add_case(cases, "evd_wait.10_ms", [] {
        const evd_wait_fixture fixture;
        for (int i = 0; i < 5; ++i)
            lasts(fixture.wait(10000), milliseconds(10));
    });
    add_case(cases, "evd_wait.10_ms_for_completions", [] {
        const evd_wait_fixture fixture;
        for (const DAT_EVD_FLAGS flags :
             {DAT_EVD_DTO_FLAG, DAT_EVD_CR_FLAG, DAT_EVD_CONNECTION_FLAG}) {
            const unique_evd other = fixture.ia.create_evd(flags);
            DAT_EVENT event{};
            DAT_COUNT more = 0;
            const auto start = clock::now();
            const DAT_RETURN got = dat_evd_wait(other, 10000, 1, &event, &more);
            lasts({got, event, more, clock::now() - start}, milliseconds(10));
        }
    });
    add_case(cases, "evd_wait.event_before_timeout", [] {
        const evd_wait_fixture fixture;
        const joined_thread poster([&] {
            std::this_thread::sleep_for(milliseconds(50));
            fixture.post(3);
        });
        constexpr std::chrono::seconds timeout{30};
        const waited is_now = fixture.wait(dat_timeout(timeout));
        require_success(is_now.got);
        expect_eq(software_event_pointer(is_now.event), 3, "the pointer");
        expect_true(is_now.took < timeout, "it slept until the timeout");
    });
    add_case(cases, "evd_wait.infinite", [] {
        const evd_wait_fixture fixture;
        const joined_thread poster([&] {
            std::this_thread::sleep_for(milliseconds(50));
            fixture.post(4);
        });
        const waited is_now = fixture.wait(infinite_timeout);
        require_success(is_now.got);
        expect_eq(software_event_pointer(is_now.event), 4, "the pointer");
        expect_eq(is_now.more, 0, "the number of events left");
    });
    add_case(cases, "evd_wait.timeout_not_restarted", [] { // by an event that is not enough
        const evd_wait_fixture fixture;
        constexpr DAT_COUNT threshold = 250;
        const unique_evd events = fixture.ia.create_evd(DAT_EVD_SOFTWARE_FLAG, threshold);
        std::atomic<bool> over = false;
        std::atomic<DAT_COUNT> posted = 0;
        joined_thread poster([&] { // for five seconds at least
            while (!over && ++posted < threshold) {
                const DAT_EVENT event = make_software_event(1);
                require_success(dat_evd_post_se(events, &event));
                std::this_thread::sleep_for(milliseconds(20));
            }
        });
        DAT_EVENT event{};
        DAT_COUNT more = 0;
        expect_return(dat_evd_wait(events, 100000, threshold, &event, &more), timeout_expired);
        over = true;
        poster.join();
        expect_true(posted < threshold, "each event restarted the timeout");
    });
}

void thresholds(case_list &cases) {
    add_case(cases, "evd_wait.more", [] {
        const evd_wait_fixture fixture;
        for (DAT_UINT64 i = 0; i < 5; ++i)
            fixture.post(i);
        for (DAT_UINT64 i = 0; i < 5; ++i)
            fixture.gives(i, static_cast<DAT_COUNT>(4 - i));
    });
    add_case(cases, "evd_wait.threshold_met", [] {
        const evd_wait_fixture fixture;
        for (DAT_UINT64 i = 0; i < 3; ++i)
            fixture.post(i);
        fixture.gives(0, 2, 3);
        fixture.gives(1, 1, 2);
    });
    add_case(cases, "evd_wait.threshold_not_met", [] { // what is there stays there
        const evd_wait_fixture fixture;
        fixture.post(0);
        fixture.post(1);
        lasts(fixture.wait(0, 3), milliseconds(0));
        lasts(fixture.wait(10000, 3), milliseconds(10));
        fixture.post(2);
        fixture.gives(0, 2, 3);
        fixture.gives(1, 1);
        fixture.gives(2, 0);
    });
    add_case(cases, "evd_wait.threshold_while_asleep", [] {
        const evd_wait_fixture fixture;
        std::atomic<int> posted{0};
        const joined_thread poster([&] {
            for (DAT_UINT64 i = 0; i < 4; ++i) {
                std::this_thread::sleep_for(milliseconds(30));
                ++posted;
                fixture.post(i);
            }
        });
        const waited is_now = fixture.wait(infinite_timeout, 4);
        require_success(is_now.got);
        expect_eq(posted.load(), 4, "the number of events at its return");
        expect_eq(software_event_pointer(is_now.event), 0, "the first pointer");
        expect_eq(is_now.more, 3, "the number of events left");
    });
}

/// Whether a thread sleeps, or has ended.
bool sleeps(pid_t thread) {
    std::ifstream file(concat("/proc/self/task/", thread, "/stat"));
    std::string stat;
    return !std::getline(file, stat) || stat.find(") S ") != std::string::npos;
}

/// A thread that waits, for an event that may not come by itself.
struct waiter {
    explicit waiter(const evd_wait_fixture &of) {
        std::atomic<pid_t> number{0};
        thread.emplace([this, &of, &number] {
            number = gettid();
            is_now = of.wait(infinite_timeout);
        });
        // A thread may begin a tenth of a second late, and the thread that then waits in its place
        // does so forever. It may rest on its way, too, so it has to sleep for a while.
        for (int asleep = 0; asleep != 20; asleep = number != 0 && sleeps(number) ? asleep + 1 : 0)
            std::this_thread::sleep_for(milliseconds(1));
    }
    waited returned() {
        thread->join();
        return is_now;
    }
    waited is_now{};
    std::optional<joined_thread> thread;
};

void two_at_once(case_list &cases) {
    add_case(cases, "evd_wait.second_waiter", [] {
        const evd_wait_fixture fixture;
        waiter first(fixture);
        expect_return(fixture.wait(0).got, invalid_state(DAT_INVALID_STATE_EVD_WAITER));
        expect_return(fixture.wait(infinite_timeout).got,
                      invalid_state(DAT_INVALID_STATE_EVD_WAITER));
        fixture.post(5);
        const waited is_now = first.returned();
        expect_return(is_now.got, DAT_SUCCESS);
        expect_eq(software_event_pointer(is_now.event), 5, "the first waiter's pointer");
        lasts(fixture.wait(0), milliseconds(0));
    });
    add_case(cases, "evd_wait.dequeue_beside", [] {
        const evd_wait_fixture fixture;
        waiter first(fixture);
        DAT_EVENT event{};
        expect_return(dat_evd_dequeue(fixture.events, &event),
                      invalid_state(DAT_INVALID_STATE_EVD_WAITER));
        fixture.post(6);
        expect_return(first.returned().got, DAT_SUCCESS);
    });
    add_case(cases, "evd_wait.made_unwaitable", [] { // the waiter returns
        const evd_wait_fixture fixture;
        waiter first(fixture);
        require_success(dat_evd_set_unwaitable(fixture.events));
        expect_return(first.returned().got, invalid_state(DAT_INVALID_STATE_EVD_UNWAITABLE));
        require_success(dat_evd_clear_unwaitable(fixture.events));
        lasts(fixture.wait(0), milliseconds(0));
    });
    add_case(cases, "evd_wait.ping_pong", [] { // no event is slept over
        const evd_wait_fixture one;
        const unique_evd back = one.ia.create_evd(DAT_EVD_SOFTWARE_FLAG);
        constexpr DAT_UINT64 rounds = 500;
        joined_thread other([&] {
            for (DAT_UINT64 i = 0; i < rounds; ++i) {
                DAT_EVENT event{};
                DAT_COUNT more = 0;
                if (dat_evd_wait(one.events, infinite_timeout, 1, &event, &more) != DAT_SUCCESS ||
                    dat_evd_post_se(back, &event) != DAT_SUCCESS)
                    return;
            }
        });
        for (DAT_UINT64 i = 0; i < rounds; ++i) {
            one.post(i);
            expect_eq(software_event_pointer(next_event(back)), i, "the pointer");
        }
    });
}

} // namespace

void add_evd_wait(case_list &cases) {
    wrong_arguments(cases);
    timeouts(cases);
    thresholds(cases);
    two_at_once(cases);
}

} // namespace conform
