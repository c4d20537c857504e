// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Event dispatchers: waiting for them.

#include "lib/cases.hpp"
#include "lib/test_ia.hpp"
#include "lib/thread.hpp"

#include <atomic>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <unistd.h>

namespace conform {

namespace {

using clock = std::chrono::steady_clock;

struct wait_result {
    DAT_RETURN ret;
    DAT_EVENT event;
    DAT_COUNT nmore;
    clock::duration duration;
};

struct evd_wait_fixture {
    test_ia ia;
    unique_evd evd = ia.create_evd(DAT_EVD_SOFTWARE_FLAG);

    void post_software_event(DAT_UINT64 pointer, source_location loc = current_location()) const {
        const DAT_EVENT event = make_software_event(pointer);
        require_success(dat_evd_post_se(evd, &event), loc);
    }
    wait_result wait(DAT_TIMEOUT timeout, DAT_COUNT threshold = 1) const {
        poisoned<DAT_EVENT> event;
        DAT_COUNT nmore = -1;
        const auto start = clock::now();
        const DAT_RETURN ret = dat_evd_wait(evd, timeout, threshold, event.ptr(), &nmore);
        return {ret, event.value(), nmore, clock::now() - start};
    }
    /// dat_evd_wait returns the software event with this pointer at once, and says that so many
    /// (nmore) are left.
    void expect_event(DAT_UINT64 pointer, DAT_COUNT nmore, DAT_COUNT threshold = 1,
                      source_location loc = current_location()) const {
        const wait_result result = wait(0, threshold);
        require_success(result.ret, loc);
        expect_eq(result.event.event_number, DAT_SOFTWARE_EVENT, "the event", loc);
        expect_eq(result.event.evd_handle, evd, "its EVD", loc);
        expect_eq(software_event_pointer(result.event), pointer, "its pointer", loc);
        expect_eq(result.nmore, nmore, "the number of events left", loc);
    }
};

/// It returned TIMEOUT_EXPIRED, not before this time.
void expect_timeout(const wait_result &result, milliseconds time,
                    source_location loc = current_location()) {
    expect_return(result.ret, timeout_expired, loc);
    const auto elapsed = std::chrono::duration_cast<std::chrono::microseconds>(result.duration);
    expect_true(elapsed >= time, concat("it returned after ", elapsed.count(), " us already"), loc);
}

void add_invalid_argument_cases(case_list &cases) {
    add_case(cases, "evd_wait.threshold_not_positive", [] {
        const evd_wait_fixture fixture;
        expect_return(fixture.wait(0, 0).ret, invalid_parameter(3));
        expect_return(fixture.wait(0, -1).ret, invalid_parameter(3));
    });
    add_case(cases, "evd_wait.threshold_too_large", [] {
        const evd_wait_fixture fixture;
        DAT_EVD_PARAM param{};
        require_success(dat_evd_query(fixture.evd, DAT_EVD_FIELD_EVD_QLEN, &param));
        expect_return(fixture.wait(0, param.evd_qlen + 1).ret, invalid_parameter(3));
        expect_return(fixture.wait(0, param.evd_qlen).ret, timeout_expired);
    });
    add_case(cases, "evd_wait.event_null", [] {
        const evd_wait_fixture fixture;
        DAT_COUNT nmore = 0;
        expect_return(dat_evd_wait(fixture.evd, 0, 1, nullptr, &nmore), invalid_parameter(4));
    });
    add_case(cases, "evd_wait.more_null", [] {
        const evd_wait_fixture fixture;
        DAT_EVENT event{};
        expect_return(dat_evd_wait(fixture.evd, 0, 1, &event, nullptr), invalid_parameter(5));
    });
    add_case(cases, "evd_wait.wrong_loses_nothing", [] {
        const evd_wait_fixture fixture;
        fixture.post_software_event(1);
        fixture.wait(0, 0);
        DAT_COUNT nmore = 0;
        dat_evd_wait(fixture.evd, 0, 1, nullptr, &nmore);
        fixture.expect_event(1, 0);
    });
}

void add_timeout_cases(case_list &cases) {
    add_case(cases, "evd_wait.poll", [] {
        const evd_wait_fixture fixture;
        expect_timeout(fixture.wait(0), milliseconds(0));
        fixture.post_software_event(7);
        fixture.expect_event(7, 0);
    });
    add_case(cases, "evd_wait.10_ms", [] {
        const evd_wait_fixture fixture;
        for (int i = 0; i < 5; ++i)
            expect_timeout(fixture.wait(10000), milliseconds(10));
    });
    add_case(cases, "evd_wait.10_ms_for_completions", [] {
        const evd_wait_fixture fixture;
        for (const DAT_EVD_FLAGS flags :
             {DAT_EVD_DTO_FLAG, DAT_EVD_CR_FLAG, DAT_EVD_CONNECTION_FLAG}) {
            const unique_evd other_evd = fixture.ia.create_evd(flags);
            DAT_EVENT event{};
            DAT_COUNT nmore = 0;
            const auto start = clock::now();
            const DAT_RETURN ret = dat_evd_wait(other_evd, 10000, 1, &event, &nmore);
            expect_timeout({ret, event, nmore, clock::now() - start}, milliseconds(10));
        }
    });
    add_case(cases, "evd_wait.event_before_timeout", [] {
        const evd_wait_fixture fixture;
        const joined_thread poster([&] {
            std::this_thread::sleep_for(milliseconds(50));
            fixture.post_software_event(3);
        });
        constexpr std::chrono::seconds timeout{30};
        const wait_result result = fixture.wait(dat_timeout(timeout));
        require_success(result.ret);
        expect_eq(software_event_pointer(result.event), 3, "the pointer");
        expect_true(result.duration < timeout, "it slept until the timeout");
    });
    add_case(cases, "evd_wait.infinite", [] {
        const evd_wait_fixture fixture;
        const joined_thread poster([&] {
            std::this_thread::sleep_for(milliseconds(50));
            fixture.post_software_event(4);
        });
        const wait_result result = fixture.wait(infinite_timeout);
        require_success(result.ret);
        expect_eq(software_event_pointer(result.event), 4, "the pointer");
        expect_eq(result.nmore, 0, "the number of events left");
    });
    add_case(cases, "evd_wait.timeout_not_restarted", [] { // by an event that is not enough
        const evd_wait_fixture fixture;
        constexpr DAT_COUNT threshold = 250;
        const unique_evd evd = fixture.ia.create_evd(DAT_EVD_SOFTWARE_FLAG, threshold);
        std::atomic<bool> stop = false;
        std::atomic<DAT_COUNT> posted = 0;
        joined_thread poster([&] { // for five seconds at least
            while (!stop && ++posted < threshold) {
                const DAT_EVENT event = make_software_event(1);
                require_success(dat_evd_post_se(evd, &event));
                std::this_thread::sleep_for(milliseconds(20));
            }
        });
        DAT_EVENT event{};
        DAT_COUNT nmore = 0;
        expect_return(dat_evd_wait(evd, 100000, threshold, &event, &nmore), timeout_expired);
        stop = true;
        poster.join();
        expect_true(posted < threshold, "each event restarted the timeout");
    });
}

void add_threshold_cases(case_list &cases) {
    add_case(cases, "evd_wait.more", [] {
        const evd_wait_fixture fixture;
        for (DAT_UINT64 i = 0; i < 5; ++i)
            fixture.post_software_event(i);
        for (DAT_UINT64 i = 0; i < 5; ++i)
            fixture.expect_event(i, static_cast<DAT_COUNT>(4 - i));
    });
    add_case(cases, "evd_wait.threshold_met", [] {
        const evd_wait_fixture fixture;
        for (DAT_UINT64 i = 0; i < 3; ++i)
            fixture.post_software_event(i);
        fixture.expect_event(0, 2, 3);
        fixture.expect_event(1, 1, 2);
    });
    add_case(cases, "evd_wait.threshold_not_met", [] { // what is there stays there
        const evd_wait_fixture fixture;
        fixture.post_software_event(0);
        fixture.post_software_event(1);
        expect_timeout(fixture.wait(0, 3), milliseconds(0));
        expect_timeout(fixture.wait(10000, 3), milliseconds(10));
        fixture.post_software_event(2);
        fixture.expect_event(0, 2, 3);
        fixture.expect_event(1, 1);
        fixture.expect_event(2, 0);
    });
    add_case(cases, "evd_wait.threshold_while_asleep", [] {
        const evd_wait_fixture fixture;
        std::atomic<int> posted{0};
        const joined_thread poster([&] {
            for (DAT_UINT64 i = 0; i < 4; ++i) {
                std::this_thread::sleep_for(milliseconds(30));
                ++posted;
                fixture.post_software_event(i);
            }
        });
        const wait_result result = fixture.wait(infinite_timeout, 4);
        require_success(result.ret);
        expect_eq(posted.load(), 4, "the number of events at its return");
        expect_eq(software_event_pointer(result.event), 0, "the first pointer");
        expect_eq(result.nmore, 3, "the number of events left");
    });
}

/// Whether a thread sleeps, or has ended.
bool is_asleep(pid_t tid) {
    std::ifstream file(concat("/proc/self/task/", tid, "/stat"));
    std::string stat;
    return !std::getline(file, stat) || stat.find(") S ") != std::string::npos;
}

/// A thread that waits in dat_evd_wait without a timeout: it does so when the constructor returns.
struct waiter {
    explicit waiter(const evd_wait_fixture &fixture) {
        std::atomic<pid_t> tid{0};
        thread.emplace([this, &fixture, &tid] {
            tid = gettid();
            result = fixture.wait(infinite_timeout);
        });
        // Until the thread was found asleep 20 times in a row, 1 ms apart: it may also sleep before
        // it is in dat_evd_wait. If the caller waited first, it would be the waiter, forever.
        for (int asleep = 0; asleep != 20; asleep = tid != 0 && is_asleep(tid) ? asleep + 1 : 0)
            std::this_thread::sleep_for(milliseconds(1));
    }
    wait_result join() {
        thread->join();
        return result;
    }
    wait_result result{};
    std::optional<joined_thread> thread;
};

void add_second_waiter_cases(case_list &cases) {
    add_case(cases, "evd_wait.second_waiter", [] {
        const evd_wait_fixture fixture;
        waiter first_waiter(fixture);
        expect_return(fixture.wait(0).ret, invalid_state(DAT_INVALID_STATE_EVD_WAITER));
        expect_return(fixture.wait(infinite_timeout).ret,
                      invalid_state(DAT_INVALID_STATE_EVD_WAITER));
        fixture.post_software_event(5);
        const wait_result result = first_waiter.join();
        expect_return(result.ret, DAT_SUCCESS);
        expect_eq(software_event_pointer(result.event), 5, "the first waiter's pointer");
        expect_timeout(fixture.wait(0), milliseconds(0));
    });
    add_case(cases, "evd_wait.dequeue_beside", [] {
        const evd_wait_fixture fixture;
        waiter first_waiter(fixture);
        DAT_EVENT event{};
        expect_return(dat_evd_dequeue(fixture.evd, &event),
                      invalid_state(DAT_INVALID_STATE_EVD_WAITER));
        fixture.post_software_event(6);
        expect_return(first_waiter.join().ret, DAT_SUCCESS);
    });
    add_case(cases, "evd_wait.made_unwaitable", [] { // the waiter returns
        const evd_wait_fixture fixture;
        waiter first_waiter(fixture);
        require_success(dat_evd_set_unwaitable(fixture.evd));
        expect_return(first_waiter.join().ret, invalid_state(DAT_INVALID_STATE_EVD_UNWAITABLE));
        require_success(dat_evd_clear_unwaitable(fixture.evd));
        expect_timeout(fixture.wait(0), milliseconds(0));
    });
    add_case(cases, "evd_wait.ping_pong", [] { // no event is slept over
        const evd_wait_fixture fixture;
        const unique_evd reply_evd = fixture.ia.create_evd(DAT_EVD_SOFTWARE_FLAG);
        constexpr DAT_UINT64 rounds = 500;
        joined_thread responder([&] {
            for (DAT_UINT64 i = 0; i < rounds; ++i) {
                DAT_EVENT event{};
                DAT_COUNT nmore = 0;
                if (dat_evd_wait(fixture.evd, infinite_timeout, 1, &event, &nmore) != DAT_SUCCESS ||
                    dat_evd_post_se(reply_evd, &event) != DAT_SUCCESS)
                    return;
            }
        });
        for (DAT_UINT64 i = 0; i < rounds; ++i) {
            fixture.post_software_event(i);
            expect_eq(software_event_pointer(next_event(reply_evd)), i, "the pointer");
        }
    });
}

} // namespace

void add_evd_wait(case_list &cases) {
    add_invalid_argument_cases(cases);
    add_timeout_cases(cases);
    add_threshold_cases(cases);
    add_second_waiter_cases(cases);
}

} // namespace conform
