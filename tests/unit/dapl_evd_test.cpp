// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// EVDs: their streams, their length, who waits for them and how many events he wants.

#include "consumer.hpp"

#include <thread>

using namespace played;

namespace {

void done(DAT_RETURN result) {
    assert_int_equal(result, DAT_SUCCESS);
}
void close(adapter &on) {
    done(dat().pz_free_func(on.pz));
    on.close(DAT_CLOSE_GRACEFUL_FLAG);
}
DAT_RETURN post(DAT_EVD_HANDLE evd, std::uintptr_t word = 0) {
    DAT_EVENT event = {};
    event.event_number = DAT_SOFTWARE_EVENT;
    event.event_data.software_event_data.pointer = reinterpret_cast<void *>(word);
    return dat().evd_post_se_func(evd, &event);
}
DAT_RETURN wait(DAT_EVD_HANDLE evd, DAT_TIMEOUT timeout, DAT_COUNT threshold = 1) {
    DAT_EVENT event;
    DAT_COUNT more;
    return dat().evd_wait_func(evd, timeout, threshold, &event, &more);
}
DAT_EVD_PARAM ask_all(DAT_EVD_HANDLE evd) {
    DAT_EVD_PARAM param = {};
    done(dat().evd_query_func(evd, DAT_EVD_FIELD_ALL, &param));
    return param;
}

void query_tells_what_it_was_made_of(void **) {
    adapter on;
    DAT_CNO_HANDLE const cno = on.cno();
    DAT_EVD_HANDLE const evd = on.evd(DAT_EVD_SOFTWARE_FLAG | DAT_EVD_CR_FLAG, 10, cno);
    const DAT_EVD_PARAM is = ask_all(evd);
    assert_ptr_equal(is.ia_handle, reinterpret_cast<DAT_IA_HANDLE>(1));
    assert_int_equal(is.evd_qlen, 10);
    assert_ptr_equal(is.cno_handle, cno);
    assert_int_equal(is.evd_flags, DAT_EVD_SOFTWARE_FLAG | DAT_EVD_CR_FLAG);
    assert_int_equal(is.evd_state, DAT_EVD_STATE_ENABLED | DAT_EVD_STATE_WAITABLE);
    done(dat().evd_free_func(evd));
    done(dat().cno_free_func(cno));
    close(on);
}

void all_streams_but_errors_go_together(void **) {
    adapter on;
    const DAT_UINT32 streams[] = {DAT_EVD_SOFTWARE_FLAG, DAT_EVD_CR_FLAG,
                                  DAT_EVD_DTO_FLAG,      DAT_EVD_CONNECTION_FLAG,
                                  DAT_EVD_RMR_BIND_FLAG, DAT_EVD_ASYNC_FLAG};
    DAT_PROVIDER_ATTR says = {};
    done(dat().ia_query_func(on.ia, nullptr, 0, nullptr, DAT_PROVIDER_FIELD_ALL, &says));
    for (std::size_t one = 0; one != 6; ++one)
        for (std::size_t other = 0; other != 6; ++other) {
            const auto flags = static_cast<DAT_EVD_FLAGS>(streams[one] | streams[other]);
            DAT_EVD_HANDLE made = DAT_HANDLE_NULL;
            const DAT_RETURN result =
                dat().evd_create_func(on.ia, 4, DAT_HANDLE_NULL, flags, &made);
            const bool alone = one == other;
            const bool errors = one == 5 || other == 5;
            assert_int_equal(result, alone || !errors ? DAT_SUCCESS : wrong_argument(4));
            // As the IA says of itself.
            assert_int_equal(says.evd_stream_merging_supported[one][other] == DAT_TRUE,
                             result == DAT_SUCCESS);
            if (result == DAT_SUCCESS)
                done(dat().evd_free_func(made));
        }
    close(on);
}

void events_come_in_order(void **) {
    adapter on;
    DAT_EVD_HANDLE const evd = on.evd(DAT_EVD_SOFTWARE_FLAG, 100);
    for (std::uintptr_t word = 1; word != 101; ++word)
        done(post(evd, word));
    DAT_EVENT event;
    for (std::uintptr_t word = 1; word != 101; ++word) {
        done(dat().evd_dequeue_func(evd, &event));
        assert_ptr_equal(event.event_data.software_event_data.pointer,
                         reinterpret_cast<void *>(word));
        assert_ptr_equal(event.evd_handle, evd);
    }
    assert_int_equal(dat().evd_dequeue_func(evd, &event), error(DAT_QUEUE_EMPTY));
    done(dat().evd_free_func(evd));
    close(on);
}

void empty_is_no_error_where_completions_come(void **) {
    adapter on;
    DAT_EVD_HANDLE const evd = on.evd(DAT_EVD_DTO_FLAG);
    DAT_EVENT event;
    assert_int_equal(dat().evd_dequeue_func(evd, &event), DAT_QUEUE_EMPTY);
    done(dat().evd_free_func(evd));
    close(on);
}

void a_full_one_says_so_and_tells_the_ia(void **) {
    adapter on;
    DAT_EVD_HANDLE const evd = on.evd(DAT_EVD_SOFTWARE_FLAG, 3);
    for (int turn = 0; turn != 3; ++turn)
        done(post(evd));
    assert_int_equal(post(evd), error(DAT_QUEUE_FULL));
    const DAT_EVENT told = next(on.async, DAT_ASYNC_ERROR_EVD_OVERFLOW);
    assert_ptr_equal(told.event_data.asynch_error_event_data.dat_handle, evd);
    assert_int_equal(told.event_data.asynch_error_event_data.reason, DAT_EVD_OVERFLOW_ERROR);
    done(wait(evd, 0));
    done(post(evd)); // it goes on
    done(dat().evd_free_func(evd));
    close(on);
}

void a_wait_takes_one_and_counts_the_rest(void **) {
    adapter on;
    DAT_EVD_HANDLE const evd = on.evd(DAT_EVD_SOFTWARE_FLAG);
    for (std::uintptr_t word = 1; word != 6; ++word)
        done(post(evd, word));
    DAT_EVENT event;
    DAT_COUNT more = 0;
    done(dat().evd_wait_func(evd, 0, 5, &event, &more));
    assert_ptr_equal(event.event_data.software_event_data.pointer, reinterpret_cast<void *>(1));
    assert_int_equal(more, 4);
    more = 0;
    assert_int_equal(dat().evd_wait_func(evd, 1000, 5, &event, &more), error(DAT_TIMEOUT_EXPIRED));
    assert_int_equal(more, 4); // those that are there are told, and stay
    done(dat().evd_wait_func(evd, 0, 4, &event, &more));
    assert_int_equal(more, 3);
    done(dat().evd_free_func(evd));
    close(on);
}

void a_threshold_waits_for_the_last(void **) {
    adapter on;
    DAT_EVD_HANDLE const evd = on.evd(DAT_EVD_SOFTWARE_FLAG);
    std::thread waits([&] {
        DAT_EVENT event;
        DAT_COUNT more;
        assert_int_equal(dat().evd_wait_func(evd, soon, 3, &event, &more), DAT_SUCCESS);
        assert_int_equal(more, 2);
    });
    for (int turn = 0; turn != 3; ++turn)
        done(post(evd));
    waits.join();
    done(dat().evd_free_func(evd));
    close(on);
}

/// Somebody waits for it, and has for a while.
bool is_waited_for(DAT_EVD_HANDLE evd) {
    DAT_EVENT event;
    return dat().evd_dequeue_func(evd, &event) == wrong_state(DAT_INVALID_STATE_EVD_WAITER);
}

void there_is_one_who_waits(void **) {
    adapter on;
    DAT_EVD_HANDLE const evd = on.evd(DAT_EVD_SOFTWARE_FLAG);
    DAT_RETURN result = 0;
    std::thread waits([&] { result = wait(evd, soon); });
    assert_true(eventually([&] { return is_waited_for(evd); }));
    assert_int_equal(wait(evd, 0), wrong_state(DAT_INVALID_STATE_EVD_WAITER));
    assert_int_equal(dat().evd_free_func(evd), wrong_state(DAT_INVALID_STATE_EVD_WAITER));
    done(post(evd));
    waits.join();
    assert_int_equal(result, DAT_SUCCESS);
    done(dat().evd_free_func(evd));
    close(on);
}

void an_unwaitable_one_sends_away_who_waits(void **) {
    adapter on;
    DAT_EVD_HANDLE const evd = on.evd(DAT_EVD_SOFTWARE_FLAG);
    const DAT_RETURN unwaitable = wrong_state(DAT_INVALID_STATE_EVD_UNWAITABLE);
    DAT_RETURN result = 0;
    std::thread waits([&] { result = wait(evd, DAT_TIMEOUT_INFINITE); });
    assert_true(eventually([&] { return is_waited_for(evd); }));
    done(dat().evd_set_unwaitable_func(evd));
    waits.join();
    assert_int_equal(result, unwaitable);
    assert_int_equal(ask_all(evd).evd_state, DAT_EVD_STATE_ENABLED | DAT_EVD_STATE_UNWAITABLE);
    done(post(evd));
    assert_int_equal(wait(evd, 0), unwaitable); // though there is one
    DAT_EVENT event;
    done(dat().evd_dequeue_func(evd, &event));
    done(post(evd));
    done(dat().evd_clear_unwaitable_func(evd));
    done(wait(evd, 0));
    done(dat().evd_free_func(evd));
    close(on);
}

void closing_the_ia_sends_away_who_waits(void **) {
    adapter on;
    DAT_EVD_HANDLE const evd = on.evd(DAT_EVD_SOFTWARE_FLAG);
    DAT_RETURN result = 0;
    std::thread waits([&] { result = wait(evd, DAT_TIMEOUT_INFINITE); });
    assert_true(eventually([&] { return is_waited_for(evd); }));
    on.close(DAT_CLOSE_ABRUPT_FLAG);
    waits.join();
    assert_int_equal(result, error(DAT_ABORT));
}

void resize_of_events_and_of_completions(void **) {
    adapter on;
    DAT_EVD_HANDLE const events = on.evd(DAT_EVD_SOFTWARE_FLAG, 2);
    done(post(events));
    done(post(events));
    done(dat().evd_resize_func(events, 5));
    assert_int_equal(ask_all(events).evd_qlen, 5);
    done(post(events));
    assert_int_equal(dat().evd_resize_func(events, 2), wrong_state(DAT_INVALID_STATE_EVD_IN_USE));
    DAT_EVD_HANDLE const completions = on.evd(DAT_EVD_DTO_FLAG, 4);
    done(dat().evd_resize_func(completions, 1000));
    assert_true(ask_all(completions).evd_qlen >= 1000);
    done(dat().evd_free_func(events));
    done(dat().evd_free_func(completions));
    close(on);
}

void a_device_that_cannot_resize(void **) {
    adapter on;
    DAT_EVD_HANDLE const evd = on.evd(DAT_EVD_DTO_FLAG, 20);
    const DAT_COUNT has = ask_all(evd).evd_qlen;
    net().wrong.fail_always("ibv_resize_cq", EOPNOTSUPP);
    done(dat().evd_resize_func(evd, has)); // it has room for that
    assert_int_equal(dat().evd_resize_func(evd, has + 1), error(DAT_MODEL_NOT_SUPPORTED));
    net().wrong.fail_always("ibv_resize_cq", ENOMEM);
    assert_int_equal(dat().evd_resize_func(evd, has + 1),
                     error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_TEVD));
    assert_int_equal(ask_all(evd).evd_qlen, has);
    done(dat().evd_free_func(evd));
    close(on);
}

void completions_wake_who_sleeps(void **) {
    adapter on;
    end one(on), other(on);
    connect(one, other);
    memory area(on);
    DAT_LMR_TRIPLET part = area.part(0, 64);
    DAT_RETURN result = 0;
    std::thread waits([&] { result = wait(other.receives, soon, 2); });
    assert_true(eventually([&] { return is_waited_for(other.receives); }));
    for (int turn = 0; turn != 2; ++turn) {
        done(dat().ep_post_recv_func(other.ep, 1, &part, cookie(1), DAT_COMPLETION_DEFAULT_FLAG));
        done(dat().ep_post_send_func(one.ep, 1, &part, cookie(1), DAT_COMPLETION_DEFAULT_FLAG));
    }
    waits.join();
    assert_int_equal(result, DAT_SUCCESS);
    disconnect(one, other);
    one.free();
    other.free();
    area.free();
    close(on);
}

/// How many receives woke who waits for solicited ones.
void only_the_solicited_wake(void **) {
    adapter on;
    DAT_EP_ATTR attr = {};
    attr.max_recv_dtos = attr.max_request_dtos = 8;
    attr.max_recv_iov = attr.max_request_iov = 1;
    attr.recv_completion_flags = DAT_COMPLETION_SOLICITED_WAIT_FLAG;
    end one(on), other(on, &attr);
    connect(one, other);
    memory area(on);
    DAT_LMR_TRIPLET part = area.part(0, 64);
    for (int turn = 0; turn != 2; ++turn)
        done(dat().ep_post_recv_func(other.ep, 1, &part, cookie(1), DAT_COMPLETION_DEFAULT_FLAG));
    std::atomic<bool> woken = false;
    std::thread waits([&] {
        wait(other.receives, soon);
        woken = true;
    });
    assert_true(eventually([&] { return is_waited_for(other.receives); }));
    done(dat().ep_post_send_func(one.ep, 1, &part, cookie(1), DAT_COMPLETION_DEFAULT_FLAG));
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    assert_false(woken);
    done(dat().ep_post_send_func(one.ep, 1, &part, cookie(1), DAT_COMPLETION_SOLICITED_WAIT_FLAG));
    waits.join();
    disconnect(one, other);
    one.free();
    other.free();
    area.free();
    close(on);
}

} // namespace

#define TEST(name) cmocka_unit_test_setup_teardown(name, fresh, gone)

int main() {
    register_names();
    const CMUnitTest tests[] = {
        TEST(query_tells_what_it_was_made_of),
        TEST(all_streams_but_errors_go_together),
        TEST(events_come_in_order),
        TEST(empty_is_no_error_where_completions_come),
        TEST(a_full_one_says_so_and_tells_the_ia),
        TEST(a_wait_takes_one_and_counts_the_rest),
        TEST(a_threshold_waits_for_the_last),
        TEST(there_is_one_who_waits),
        TEST(an_unwaitable_one_sends_away_who_waits),
        TEST(closing_the_ia_sends_away_who_waits),
        TEST(resize_of_events_and_of_completions),
        TEST(a_device_that_cannot_resize),
        TEST(completions_wake_who_sleeps),
        TEST(only_the_solicited_wake),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
