// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// EVDs: streams, lengths, waits and thresholds.

#include "fake/consumer.hpp"
#include "fake/thread_state.hpp"

#include <optional>
#include <thread>

using namespace fake;

namespace {

DAT_RETURN wait(DAT_EVD_HANDLE evd, DAT_TIMEOUT timeout, DAT_COUNT threshold = 1) {
    DAT_EVENT event;
    DAT_COUNT nmore;
    return dat().evd_wait_func(evd, timeout, threshold, &event, &nmore);
}
DAT_EVD_PARAM query_evd(DAT_EVD_HANDLE evd) {
    DAT_EVD_PARAM param = {};
    assert_success(dat().evd_query_func(evd, DAT_EVD_FIELD_ALL, &param));
    return param;
}

void evd_query_returns_create_arguments(void **) {
    ia_fixture ia;
    DAT_CNO_HANDLE const cno = ia.create_cno();
    DAT_EVD_HANDLE const evd = ia.create_evd(DAT_EVD_SOFTWARE_FLAG | DAT_EVD_CR_FLAG, 10, cno);
    const DAT_EVD_PARAM param = query_evd(evd);
    assert_ptr_equal(param.ia_handle, first_registry_ia);
    assert_int_equal(param.evd_qlen, 10);
    assert_ptr_equal(param.cno_handle, cno);
    assert_int_equal(param.evd_flags, DAT_EVD_SOFTWARE_FLAG | DAT_EVD_CR_FLAG);
    assert_int_equal(param.evd_state, DAT_EVD_STATE_ENABLED | DAT_EVD_STATE_WAITABLE);
    assert_success(dat().evd_free_func(evd));
    assert_success(dat().cno_free_func(cno));
}

/// For each pair of event streams, creates an EVD of both.
void evd_streams_merge_except_async(void **) {
    ia_fixture ia;
    const DAT_UINT32 streams[] = {DAT_EVD_SOFTWARE_FLAG, DAT_EVD_CR_FLAG,
                                  DAT_EVD_DTO_FLAG,      DAT_EVD_CONNECTION_FLAG,
                                  DAT_EVD_RMR_BIND_FLAG, DAT_EVD_ASYNC_FLAG};
    DAT_PROVIDER_ATTR provider_attr = {};
    assert_success(dat().ia_query_func(ia.handle, nullptr, 0, nullptr, DAT_PROVIDER_FIELD_ALL,
                                       &provider_attr));
    for (std::size_t i = 0; i != 6; ++i)
        for (std::size_t j = 0; j != 6; ++j) {
            const auto flags = static_cast<DAT_EVD_FLAGS>(streams[i] | streams[j]);
            DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
            const DAT_RETURN result =
                dat().evd_create_func(ia.handle, 4, DAT_HANDLE_NULL, flags, &evd);
            const bool same_stream = i == j;
            const bool has_async = i == 5 || j == 5;
            assert_int_equal(result,
                             same_stream || !has_async ? DAT_SUCCESS : invalid_parameter(4));
            // Matches the provider attribute.
            assert_int_equal(provider_attr.evd_stream_merging_supported[i][j] == DAT_TRUE,
                             result == DAT_SUCCESS);
            if (result == DAT_SUCCESS)
                assert_success(dat().evd_free_func(evd));
        }
}

void software_events_in_order(void **) {
    ia_fixture ia;
    DAT_EVD_HANDLE const evd = ia.create_evd(DAT_EVD_SOFTWARE_FLAG, 100);
    for (std::uintptr_t id = 1; id != 101; ++id)
        assert_success(post_event(evd, id));
    DAT_EVENT event;
    for (std::uintptr_t id = 1; id != 101; ++id) {
        assert_success(dat().evd_dequeue_func(evd, &event));
        assert_ptr_equal(event.event_data.software_event_data.pointer,
                         reinterpret_cast<void *>(id));
        assert_ptr_equal(event.evd_handle, evd);
    }
    assert_int_equal(dat().evd_dequeue_func(evd, &event), dat_error(DAT_QUEUE_EMPTY));
    assert_success(dat().evd_free_func(evd));
}

void dequeue_of_empty_dto_evd_has_no_error_class(void **) {
    ia_fixture ia;
    DAT_EVD_HANDLE const evd = ia.create_evd(DAT_EVD_DTO_FLAG);
    DAT_EVENT event;
    assert_int_equal(dat().evd_dequeue_func(evd, &event), DAT_QUEUE_EMPTY);
    assert_success(dat().evd_free_func(evd));
}

/// A completion may be there that no other one wakes the waiter for.
void cq_that_cannot_be_polled_is_an_error(void **) {
    ia_fixture ia;
    DAT_CNO_HANDLE cno = ia.create_cno();
    DAT_EVD_HANDLE const evd = ia.create_evd(DAT_EVD_DTO_FLAG, 8);
    DAT_EVENT event;
    DAT_COUNT nmore = 0;
    get_fabric().injected.fail_always("ibv_poll_cq", EIO);
    assert_int_equal(dat().evd_dequeue_func(evd, &event), dat_error(DAT_INTERNAL_ERROR));
    assert_int_equal(dat().evd_wait_func(evd, DAT_TIMEOUT_INFINITE, 1, &event, &nmore),
                     dat_error(DAT_INTERNAL_ERROR));
    // A CNO that gets the EVD is triggered, as if it had an event.
    assert_success(dat().evd_modify_cno_func(evd, cno));
    DAT_EVD_HANDLE triggered = DAT_HANDLE_NULL;
    assert_success(dat().cno_wait_func(cno, event_timeout_us, &triggered));
    assert_ptr_equal(triggered, evd);
    get_fabric().injected.fail_none();
    assert_int_equal(dat().evd_dequeue_func(evd, &event), DAT_QUEUE_EMPTY);
    // Only after the CQ was armed: it is polled again.
    get_fabric().injected.fail("ibv_poll_cq", EIO, 2);
    assert_int_equal(dat().evd_wait_func(evd, 1000, 1, &event, &nmore),
                     dat_error(DAT_TIMEOUT_EXPIRED));
    get_fabric().injected.fail_none();
    assert_success(dat().evd_free_func(evd));
    assert_success(dat().cno_free_func(cno));
}

void evd_overflow_reported_to_async_evd(void **) {
    ia_fixture ia;
    DAT_EVD_HANDLE const evd = ia.create_evd(DAT_EVD_SOFTWARE_FLAG, 3);
    for (int i = 0; i != 3; ++i)
        assert_success(post_event(evd));
    assert_int_equal(post_event(evd), dat_error(DAT_QUEUE_FULL));
    const DAT_EVENT event = wait_event(ia.async_evd, DAT_ASYNC_ERROR_EVD_OVERFLOW);
    assert_ptr_equal(event.event_data.asynch_error_event_data.dat_handle, evd);
    assert_int_equal(event.event_data.asynch_error_event_data.reason, DAT_EVD_OVERFLOW_ERROR);
    assert_success(wait(evd, 0));
    assert_success(post_event(evd)); // the EVD remains usable
    assert_success(dat().evd_free_func(evd));
}

/// With a threshold the wait succeeds if the EVD has that many events, and removes one.
void evd_wait_returns_one_and_count_of_rest(void **) {
    ia_fixture ia;
    DAT_EVD_HANDLE const evd = ia.create_evd(DAT_EVD_SOFTWARE_FLAG);
    for (std::uintptr_t id = 1; id != 6; ++id)
        assert_success(post_event(evd, id));
    DAT_EVENT event;
    DAT_COUNT nmore = 0;
    assert_success(dat().evd_wait_func(evd, 0, 5, &event, &nmore));
    assert_ptr_equal(event.event_data.software_event_data.pointer, reinterpret_cast<void *>(1));
    assert_int_equal(nmore, 4);
    nmore = 0;
    assert_int_equal(dat().evd_wait_func(evd, 1000, 5, &event, &nmore),
                     dat_error(DAT_TIMEOUT_EXPIRED));
    assert_int_equal(nmore, 4); // counts the events left in the EVD
    assert_success(dat().evd_wait_func(evd, 0, 4, &event, &nmore));
    assert_int_equal(nmore, 3);
    assert_success(dat().evd_free_func(evd));
}

void evd_wait_threshold_waits_for_all(void **) {
    ia_fixture ia;
    DAT_EVD_HANDLE const evd = ia.create_evd(DAT_EVD_SOFTWARE_FLAG);
    std::thread waiter([&] {
        DAT_EVENT event;
        DAT_COUNT nmore;
        assert_int_equal(dat().evd_wait_func(evd, event_timeout_us, 3, &event, &nmore),
                         DAT_SUCCESS);
        assert_int_equal(nmore, 2);
    });
    for (int i = 0; i != 3; ++i)
        assert_success(post_event(evd));
    waiter.join();
    assert_success(dat().evd_free_func(evd));
}

/// Whether another thread is in dat_evd_wait.
bool has_waiter(DAT_EVD_HANDLE evd) {
    DAT_EVENT event;
    return dat().evd_dequeue_func(evd, &event) == invalid_state(DAT_INVALID_STATE_EVD_WAITER);
}

void second_evd_waiter_rejected(void **) {
    ia_fixture ia;
    DAT_EVD_HANDLE const evd = ia.create_evd(DAT_EVD_SOFTWARE_FLAG);
    DAT_RETURN result = 0;
    std::thread waiter([&] { result = wait(evd, event_timeout_us); });
    assert_true(wait_until([&] { return has_waiter(evd); }));
    assert_int_equal(wait(evd, 0), invalid_state(DAT_INVALID_STATE_EVD_WAITER));
    assert_int_equal(dat().evd_free_func(evd), invalid_state(DAT_INVALID_STATE_EVD_WAITER));
    assert_success(post_event(evd));
    waiter.join();
    assert_int_equal(result, DAT_SUCCESS);
    assert_success(dat().evd_free_func(evd));
}

void set_unwaitable_ends_evd_wait(void **) {
    ia_fixture ia;
    DAT_EVD_HANDLE const evd = ia.create_evd(DAT_EVD_SOFTWARE_FLAG);
    const DAT_RETURN unwaitable = invalid_state(DAT_INVALID_STATE_EVD_UNWAITABLE);
    DAT_RETURN result = 0;
    std::thread waiter([&] { result = wait(evd, DAT_TIMEOUT_INFINITE); });
    assert_true(wait_until([&] { return has_waiter(evd); }));
    assert_success(dat().evd_set_unwaitable_func(evd));
    waiter.join();
    assert_int_equal(result, unwaitable);
    assert_int_equal(query_evd(evd).evd_state, DAT_EVD_STATE_ENABLED | DAT_EVD_STATE_UNWAITABLE);
    assert_success(post_event(evd));
    assert_int_equal(wait(evd, 0), unwaitable); // although it has an event
    DAT_EVENT event;
    assert_success(dat().evd_dequeue_func(evd, &event));
    assert_success(post_event(evd));
    assert_success(dat().evd_clear_unwaitable_func(evd));
    assert_success(wait(evd, 0));
    assert_success(dat().evd_free_func(evd));
}

void abrupt_close_ends_evd_wait(void **) {
    ia_fixture ia;
    DAT_EVD_HANDLE const evd = ia.create_evd(DAT_EVD_SOFTWARE_FLAG);
    DAT_RETURN result = 0;
    std::thread waiter([&] { result = wait(evd, DAT_TIMEOUT_INFINITE); });
    assert_true(wait_until([&] { return has_waiter(evd); }));
    ia.close(DAT_CLOSE_ABRUPT_FLAG);
    waiter.join();
    assert_int_equal(result, dat_error(DAT_ABORT));
}

/// The queue of software events, and the CQ.
void evd_resize_grows_both_queues(void **) {
    ia_fixture ia;
    DAT_EVD_HANDLE const events = ia.create_evd(DAT_EVD_SOFTWARE_FLAG, 2);
    assert_success(post_event(events));
    assert_success(post_event(events));
    assert_success(dat().evd_resize_func(events, 5));
    assert_int_equal(query_evd(events).evd_qlen, 5);
    assert_success(post_event(events));
    assert_int_equal(dat().evd_resize_func(events, 2), invalid_state(DAT_INVALID_STATE_EVD_IN_USE));
    DAT_EVD_HANDLE const completions = ia.create_evd(DAT_EVD_DTO_FLAG, 4);
    assert_success(dat().evd_resize_func(completions, 1000));
    assert_true(query_evd(completions).evd_qlen >= 1000);
    assert_success(dat().evd_free_func(events));
    assert_success(dat().evd_free_func(completions));
}

void evd_resize_unsupported_by_device_fails(void **) {
    ia_fixture ia;
    DAT_EVD_HANDLE const evd = ia.create_evd(DAT_EVD_DTO_FLAG, 20);
    const DAT_COUNT qlen = query_evd(evd).evd_qlen;
    get_fabric().injected.fail_always("ibv_resize_cq", EOPNOTSUPP);
    assert_success(dat().evd_resize_func(evd, qlen)); // large enough already
    assert_int_equal(dat().evd_resize_func(evd, qlen + 1), dat_error(DAT_MODEL_NOT_SUPPORTED));
    get_fabric().injected.fail_always("ibv_resize_cq", ENOMEM);
    assert_int_equal(dat().evd_resize_func(evd, qlen + 1),
                     dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_TEVD));
    assert_int_equal(query_evd(evd).evd_qlen, qlen);
    assert_success(dat().evd_free_func(evd));
}

void completions_wake_evd_wait(void **) {
    ia_fixture ia;
    ep_fixture ep(ia), peer_ep(ia);
    connect(ep, peer_ep);
    memory buffer(ia);
    DAT_LMR_TRIPLET iov = buffer.lmr_triplet(0, 64);
    DAT_RETURN result = 0;
    std::thread waiter([&] { result = wait(peer_ep.recv_evd, event_timeout_us, 2); });
    assert_true(wait_until([&] { return has_waiter(peer_ep.recv_evd); }));
    for (int i = 0; i != 2; ++i) {
        assert_success(dat().ep_post_recv_func(peer_ep.handle, 1, &iov, cookie(1),
                                               DAT_COMPLETION_DEFAULT_FLAG));
        assert_success(
            dat().ep_post_send_func(ep.handle, 1, &iov, cookie(1), DAT_COMPLETION_DEFAULT_FLAG));
    }
    waiter.join();
    assert_int_equal(result, DAT_SUCCESS);
    disconnect(ep, peer_ep);
}

/// An EP with DAT_COMPLETION_SOLICITED_WAIT_FLAG for its receives.
void assert_only_solicited_completions_wake(const ep_fixture &ep, const ep_fixture &peer_ep) {
    connect(ep, peer_ep);
    memory buffer(ep.ia);
    DAT_LMR_TRIPLET iov = buffer.lmr_triplet(0, 64);
    for (int i = 0; i != 2; ++i)
        assert_success(dat().ep_post_recv_func(peer_ep.handle, 1, &iov, cookie(1),
                                               DAT_COMPLETION_DEFAULT_FLAG));
    std::atomic<bool> woken = false;
    std::thread waiter([&] {
        wait(peer_ep.recv_evd, event_timeout_us);
        woken = true;
    });
    assert_true(wait_until([&] { return has_waiter(peer_ep.recv_evd); }));
    assert_success(
        dat().ep_post_send_func(ep.handle, 1, &iov, cookie(1), DAT_COMPLETION_DEFAULT_FLAG));
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    assert_false(woken);
    assert_success(
        dat().ep_post_send_func(ep.handle, 1, &iov, cookie(1), DAT_COMPLETION_SOLICITED_WAIT_FLAG));
    waiter.join();
    disconnect(ep, peer_ep);
}

DAT_EP_ATTR solicited_wait_attr() {
    DAT_EP_ATTR attr = {};
    attr.max_recv_dtos = attr.max_request_dtos = 8;
    attr.max_recv_iov = attr.max_request_iov = 1;
    attr.recv_completion_flags = DAT_COMPLETION_SOLICITED_WAIT_FLAG;
    return attr;
}

void only_solicited_completions_wake_evd_wait(void **) {
    ia_fixture ia;
    const DAT_EP_ATTR attr = solicited_wait_attr();
    ep_fixture ep(ia), peer_ep(ia, &attr);
    assert_only_solicited_completions_wake(ep, peer_ep);
}

void modified_completion_flags_have_effect(void **) {
    ia_fixture ia;
    ep_fixture ep(ia), peer_ep(ia);
    DAT_EP_PARAM param = {};
    param.ep_attr = solicited_wait_attr();
    assert_success(
        dat().ep_modify_func(peer_ep.handle, DAT_EP_FIELD_EP_ATTR_RECV_COMPLETION_FLAGS, &param));
    assert_only_solicited_completions_wake(ep, peer_ep);
}

/// An EVD for the receives of two EPs: one wants each message to wake waiters, the other only
/// solicited ones.
struct shared_evd_fixture {
    ~shared_evd_fixture() {
        disconnect(flagged, flagged_peer);
        plain.reset();
        flagged.free();
        assert_success(dat().evd_free_func(evd));
    }
    void set_recv_evd(const ep_fixture &ep) const {
        DAT_EP_PARAM param = {};
        param.recv_evd_handle = evd;
        assert_success(dat().ep_modify_func(ep.handle, DAT_EP_FIELD_RECV_EVD_HANDLE, &param));
    }
    void post_message(const ep_fixture &sender, const ep_fixture &receiver) {
        DAT_LMR_TRIPLET iov = buffer.lmr_triplet(0, 64);
        assert_success(dat().ep_post_recv_func(receiver.handle, 1, &iov, cookie(1),
                                               DAT_COMPLETION_DEFAULT_FLAG));
        assert_success(dat().ep_post_send_func(sender.handle, 1, &iov, cookie(1),
                                               DAT_COMPLETION_DEFAULT_FLAG));
    }
    /// Sends a message that is not solicited to the EP while a thread sleeps.
    void assert_message_wakes(const ep_fixture &sender, const ep_fixture &receiver, bool wakes) {
        std::atomic<bool> woken = false;
        named_thread waiter([&] {
            wait(evd, event_timeout_us);
            woken = true;
        });
        assert_true(wait_until([&] { return waiter.is_asleep(); }));
        post_message(sender, receiver);
        if (wakes)
            assert_true(wait_until([&] { return woken.load(); }));
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        assert_int_equal(woken.load(), wakes);
        assert_success(post_event(evd));
        waiter.join();
        DAT_EVENT event;
        while (dat().evd_dequeue_func(evd, &event) == DAT_SUCCESS)
            ;
    }

    ia_fixture ia;
    const DAT_EP_ATTR attr = solicited_wait_attr();
    memory buffer{ia};
    DAT_EVD_HANDLE evd = ia.create_evd(DAT_EVD_DTO_FLAG | DAT_EVD_SOFTWARE_FLAG);
    ep_fixture plain_peer{ia}, flagged_peer{ia}, flagged{ia, &attr};
    std::optional<ep_fixture> plain{std::in_place, ia};
};

/// Whichever EP is created last.
void each_message_wakes_waiter_if_an_ep_wants_that(void **) {
    for (const bool plain_last : {false, true}) {
        shared_evd_fixture fixture;
        fixture.set_recv_evd(plain_last ? fixture.flagged : *fixture.plain);
        fixture.set_recv_evd(plain_last ? *fixture.plain : fixture.flagged);
        connect(fixture.plain_peer, *fixture.plain);
        connect(fixture.flagged_peer, fixture.flagged);
        fixture.assert_message_wakes(fixture.plain_peer, *fixture.plain, true);
        fixture.assert_message_wakes(fixture.flagged_peer, fixture.flagged, true);
        fixture.plain.reset();
        fixture.assert_message_wakes(fixture.flagged_peer, fixture.flagged, false);
    }
}

void ep_for_which_each_message_wakes_has_effect_on_sleeping_waiter(void **) {
    shared_evd_fixture fixture;
    fixture.set_recv_evd(fixture.flagged);
    connect(fixture.flagged_peer, fixture.flagged);
    named_thread waiter([&] { wait(fixture.evd, event_timeout_us); });
    assert_true(wait_until([&] { return waiter.is_asleep(); }));
    fixture.set_recv_evd(*fixture.plain);
    connect(fixture.plain_peer, *fixture.plain);
    fixture.post_message(fixture.plain_peer, *fixture.plain);
    const bool woken = wait_until([&] { return !has_waiter(fixture.evd); });
    post_event(fixture.evd);
    waiter.join();
    assert_true(woken);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        TEST(evd_query_returns_create_arguments),
        TEST(evd_streams_merge_except_async),
        TEST(software_events_in_order),
        TEST(dequeue_of_empty_dto_evd_has_no_error_class),
        TEST(cq_that_cannot_be_polled_is_an_error),
        TEST(evd_overflow_reported_to_async_evd),
        TEST(evd_wait_returns_one_and_count_of_rest),
        TEST(evd_wait_threshold_waits_for_all),
        TEST(second_evd_waiter_rejected),
        TEST(set_unwaitable_ends_evd_wait),
        TEST(abrupt_close_ends_evd_wait),
        TEST(evd_resize_grows_both_queues),
        TEST(evd_resize_unsupported_by_device_fails),
        TEST(completions_wake_evd_wait),
        TEST(only_solicited_completions_wake_evd_wait),
        TEST(modified_completion_flags_have_effect),
        TEST(each_message_wakes_waiter_if_an_ep_wants_that),
        TEST(ep_for_which_each_message_wakes_has_effect_on_sleeping_waiter),
    };
    return run_cases(tests);
}
