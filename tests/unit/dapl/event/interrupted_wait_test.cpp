// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Signals and pthread_cancel for threads in dat_evd_wait and dat_cno_wait, of DAT 2.0 and of 1.2.

#include "../../dispatch/dat1.hpp"
#include "dapl/event/evd.hpp"
#include "fake/thread_state.hpp"

#include <array>
#include <atomic>
#include <csignal>
#include <pthread.h>
#include <thread>
#include <unistd.h>

using namespace fake;

namespace {

constexpr DAT_COUNT initial_nmore = -1;

/// What a wait has stored.
struct wait_result {
    DAT_RETURN ret = DAT_SUCCESS;
    DAT_HANDLE evd = DAT_HANDLE_NULL; ///< of the event, or that triggered the CNO
    DAT_COUNT nmore = initial_nmore;
};

/// An EVD of software events and completions that triggers a CNO.
struct wait_fixture {
    ~wait_fixture() {
        assert_success(dat().evd_free_func(evd));
        assert_success(dat().cno_free_func(cno));
    }
    ia_fixture ia;
    DAT_CNO_HANDLE cno = ia.create_cno();
    DAT_EVD_HANDLE evd = ia.create_evd(DAT_EVD_SOFTWARE_FLAG | DAT_EVD_DTO_FLAG, 8, cno);
};

using wait_call = void (*)(const wait_fixture &, DAT_COUNT threshold, wait_result &);

void evd_wait(const wait_fixture &fixture, DAT_COUNT threshold, wait_result &result) {
    DAT_EVENT event = {};
    result.ret =
        dat().evd_wait_func(fixture.evd, DAT_TIMEOUT_INFINITE, threshold, &event, &result.nmore);
    result.evd = event.evd_handle;
}
void dat1_evd_wait(const wait_fixture &fixture, DAT_COUNT threshold, wait_result &result) {
    dat1_test::dat1::event event = {};
    result.ret = dat1_test::dat().evd_wait_func(fixture.evd, DAT_TIMEOUT_INFINITE, threshold,
                                                &event, &result.nmore);
    result.evd = event.evd_handle;
}
void cno_wait(const wait_fixture &fixture, DAT_COUNT, wait_result &result) {
    result.ret = dat().cno_wait_func(fixture.cno, DAT_TIMEOUT_INFINITE, &result.evd);
}
void dat1_cno_wait(const wait_fixture &fixture, DAT_COUNT, wait_result &result) {
    result.ret = dat1_test::dat().cno_wait_func(fixture.cno, DAT_TIMEOUT_INFINITE, &result.evd);
}
constexpr std::array evd_waits = {evd_wait, dat1_evd_wait};
constexpr std::array waits = {evd_wait, dat1_evd_wait, cno_wait, dat1_cno_wait};

/// A thread that sleeps in a wait when the constructor returns.
class waiter {
  public:
    waiter(const wait_fixture &fixture, wait_call call, DAT_COUNT threshold = 1)
        : fixture_(fixture)
        , threshold_(threshold)
        , thread_([this, &fixture, call, threshold] {
            call(fixture, threshold, result_);
            returned_ = true;
        }) {
        assert_true(wait_until([this] { return thread_.is_asleep(); }));
    }
    /// Sends signals until the wait has returned: one that arrives just before the sleep has no
    /// effect. If it never returns, an event ends it.
    wait_result interrupt() {
        for (int i = 0; i != max_signals && !returned_; ++i) {
            pthread_kill(thread_.native_handle(), SIGUSR1);
            usleep(1000);
        }
        const bool has_returned = returned_;
        for (DAT_COUNT i = 0; !has_returned && i != threshold_; ++i)
            assert_success(post_event(fixture_.evd));
        thread_.join();
        assert_true(has_returned);
        return result_;
    }
    void cancel() {
        assert_int_equal(pthread_cancel(thread_.native_handle()), 0);
        thread_.join();
        assert_false(returned_);
    }
    wait_result join() {
        thread_.join();
        return result_;
    }

  private:
    static constexpr int max_signals = 2000;

    const wait_fixture &fixture_;
    const DAT_COUNT threshold_;
    std::atomic<bool> returned_ = false;
    wait_result result_;
    named_thread thread_;
};

/// The EVD and its CNO can be waited for again, and an event wakes both.
void assert_next_event_received(const wait_fixture &fixture) {
    wait_result result;
    assert_success(post_event(fixture.evd));
    cno_wait(fixture, 1, result);
    assert_success(result.ret);
    assert_ptr_equal(result.evd, fixture.evd);
    evd_wait(fixture, 1, result);
    assert_success(result.ret);
    assert_int_equal(result.nmore, 0);
    waiter next(fixture, evd_wait);
    assert_success(post_event(fixture.evd));
    assert_success(next.join().ret);
}

/// SIGUSR1 has a handler that does nothing.
class signal_handler {
  public:
    explicit signal_handler(int sa_flags = 0) {
        struct sigaction action = {};
        action.sa_handler = [](int) {
        };
        action.sa_flags = sa_flags;
        assert_int_equal(sigaction(SIGUSR1, &action, &old_action_), 0);
    }
    ~signal_handler() { sigaction(SIGUSR1, &old_action_, nullptr); }

  private:
    struct sigaction old_action_ = {};
};

/// SA_RESTART or not: the kernel never restarts a poll.
void signal_ends_waits(void **) {
    for (const int sa_flags : {0, SA_RESTART})
        for (const wait_call call : waits) {
            const signal_handler handler(sa_flags);
            wait_fixture fixture;
            const wait_result result = waiter(fixture, call).interrupt();
            assert_int_equal(result.ret, dat_error(DAT_INTERRUPTED_CALL));
            assert_null(result.evd);
            assert_next_event_received(fixture);
        }
}

void interrupted_evd_wait_leaves_and_counts_events(void **) {
    const signal_handler handler;
    for (const wait_call call : evd_waits) {
        wait_fixture fixture;
        assert_success(post_event(fixture.evd));
        assert_success(post_event(fixture.evd));
        wait_result result = waiter(fixture, call, 3).interrupt();
        assert_int_equal(result.ret, dat_error(DAT_INTERRUPTED_CALL));
        assert_int_equal(result.nmore, 2);
        evd_wait(fixture, 2, result);
        assert_success(result.ret);
        assert_int_equal(result.nmore, 1);
        evd_wait(fixture, 1, result);
        assert_success(result.ret);
    }
}

/// An event of which the waiter does not know is in the EVD when the signal arrives.
void event_wins_over_signal(void **) {
    const signal_handler handler;
    for (const wait_call call : waits) {
        wait_fixture fixture;
        waiter waiter(fixture, call);
        auto &evd = *static_cast<coherdma::dapl::dapl_evd *>(fixture.evd);
        {
            const std::lock_guard guard(evd.lock);
            assert_true(evd.append_event());
            evd.queue.back().event_number = DAT_SOFTWARE_EVENT;
            evd.queue.back().evd_handle = &evd;
            if (call == cno_wait || call == dat1_cno_wait)
                evd.signal_event_fd(); // which makes an EVD trigger
        }
        const wait_result result = waiter.interrupt();
        assert_success(result.ret);
        assert_ptr_equal(result.evd, fixture.evd);
    }
}

/// One thread posts, another waits, which gets a signal now and then.
void no_event_lost_by_signals(void **) {
    constexpr int num_events = 2000;
    const signal_handler handler;
    wait_fixture fixture;
    std::atomic<int> num_received = 0;
    std::atomic<bool> done = false;
    std::thread consumer([&] {
        DAT_EVENT event;
        DAT_COUNT nmore;
        while (num_received != num_events) {
            const DAT_RETURN ret =
                dat().evd_wait_func(fixture.evd, event_timeout_us, 1, &event, &nmore);
            if (ret == DAT_SUCCESS)
                ++num_received;
            else if (ret != dat_error(DAT_INTERRUPTED_CALL))
                break;
        }
        done = true;
    });
    for (int i = 0; i != num_events && !done; ++i) {
        while (!done && post_event(fixture.evd) != DAT_SUCCESS)
            std::this_thread::yield(); // the EVD is full
        pthread_kill(consumer.native_handle(), SIGUSR1);
    }
    consumer.join();
    assert_int_equal(num_received, num_events);
}

void canceled_thread_leaves_waits(void **) {
    for (const wait_call call : waits) {
        wait_fixture fixture;
        waiter(fixture, call).cancel();
        assert_next_event_received(fixture);
    }
}

void canceled_thread_leaves_events(void **) {
    for (const wait_call call : evd_waits) {
        wait_fixture fixture;
        assert_success(post_event(fixture.evd));
        waiter(fixture, call, 2).cancel();
        wait_result result;
        evd_wait(fixture, 1, result);
        assert_success(result.ret);
        assert_int_equal(result.nmore, 0);
    }
}

/// The CQ notifies of a completion for which the canceled thread waited.
void completion_wakes_waiter_after_canceled_one(void **) {
    connected_eps eps;
    assert_success(eps.post_recv(64, cookie(1)));
    const auto wait = [&eps] {
        wait_event(eps.passive.recv_evd, DAT_DTO_COMPLETION_EVENT);
    };
    named_thread canceled(wait);
    assert_true(wait_until([&] { return canceled.is_asleep(); }));
    assert_int_equal(pthread_cancel(canceled.native_handle()), 0);
    canceled.join();
    named_thread next(wait);
    assert_true(wait_until([&] { return next.is_asleep(); }));
    assert_success(eps.post_send(64, cookie(2)));
    next.join();
}

/// A thread that is canceled before it waits, and finds an event: the call is no cancellation point
/// then, though it reads descriptors.
void wait_that_does_not_sleep_is_no_cancellation_point(void **) {
    for (const wait_call call : waits) {
        wait_fixture fixture;
        wait_result result;
        assert_success(post_event(fixture.evd));
        std::thread thread([&] {
            pthread_cancel(pthread_self());
            call(fixture, 1, result);
            int state;
            pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
            if (state != PTHREAD_CANCEL_ENABLE)
                result.ret = dat_error(DAT_INTERNAL_ERROR);
        });
        thread.join();
        assert_success(result.ret);
    }
}

void wait_with_cancellation_disabled_is_no_cancellation_point(void **) {
    for (const wait_call call : waits) {
        wait_fixture fixture;
        wait_result result;
        named_thread thread([&] {
            pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
            pthread_cancel(pthread_self());
            call(fixture, 1, result);
        });
        assert_true(wait_until([&] { return thread.is_asleep(); }));
        assert_success(post_event(fixture.evd));
        thread.join();
        assert_success(result.ret);
    }
}

/// Threads are canceled at any time, also as events arrive: each event is received once.
void no_event_lost_by_cancellation(void **) {
#ifdef COHERDMA_TSAN
    skip(); // TSan ignores the atomic operations of a thread that was canceled in its ppoll
#endif
    constexpr std::uintptr_t num_events = 500;
    wait_fixture fixture;
    std::uintptr_t num_posted = 0, num_received = 0;
    const auto receive = [&] {
        while (num_received != num_events) {
            DAT_EVENT event;
            DAT_COUNT nmore;
            assert_success(dat().evd_wait_func(fixture.evd, event_timeout_us, 1, &event, &nmore));
            assert_ptr_equal(event.event_data.software_event_data.pointer,
                             reinterpret_cast<void *>(num_received));
            ++num_received;
        }
    };
    while (num_posted != num_events) {
        std::thread thread(receive);
        while (num_posted != num_events && post_event(fixture.evd, num_posted) == DAT_SUCCESS) {
            ++num_posted;
            if (num_posted % 3 == 0)
                break;
        }
        assert_int_equal(pthread_cancel(thread.native_handle()), 0);
        thread.join();
    }
    receive();
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        TEST(signal_ends_waits),
        TEST(interrupted_evd_wait_leaves_and_counts_events),
        TEST(event_wins_over_signal),
        TEST(no_event_lost_by_signals),
        TEST(canceled_thread_leaves_waits),
        TEST(canceled_thread_leaves_events),
        TEST(completion_wakes_waiter_after_canceled_one),
        TEST(wait_that_does_not_sleep_is_no_cancellation_point),
        TEST(wait_with_cancellation_disabled_is_no_cancellation_point),
        TEST(no_event_lost_by_cancellation),
    };
    return dat1_test::run_cases(tests);
}
