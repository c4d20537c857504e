// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// SRQs: receives that several EPs share, and watermarks.

#include "fake/two_eps.hpp"

using namespace fake;

namespace {

DAT_SRQ_PARAM query_srq(DAT_SRQ_HANDLE srq) {
    DAT_SRQ_PARAM param = {};
    assert_success(dat().srq_query_func(srq, DAT_SRQ_FIELD_ALL, &param));
    return param;
}

/// Two connections whose passive EPs share an SRQ.
struct srq_fixture {
    srq_fixture()
        : srq(ia.create_srq(8))
        , active_a(ia)
        , active_b(ia)
        , passive_a(ia, nullptr, srq)
        , passive_b(ia, nullptr, srq)
        , buffer(ia) {
        connect(active_a, passive_a);
        connect(active_b, passive_b);
    }
    ~srq_fixture() {
        if (ia.handle == DAT_HANDLE_NULL)
            return;
        disconnect(active_a, passive_a);
        disconnect(active_b, passive_b);
        passive_a.free();
        passive_b.free();
        assert_success(dat().srq_free_func(srq));
    }
    DAT_RETURN post_recv(DAT_DTO_COOKIE user_cookie) const {
        DAT_LMR_TRIPLET iov = buffer.lmr_triplet(64 * user_cookie.as_64, 64);
        return dat().srq_post_recv_func(srq, 1, &iov, user_cookie);
    }
    void post_send(const ep_fixture &ep) const {
        DAT_LMR_TRIPLET iov = buffer.lmr_triplet(0, 64);
        assert_success(
            dat().ep_post_send_func(ep.handle, 1, &iov, cookie(1), DAT_COMPLETION_SUPPRESS_FLAG));
    }
    ia_fixture ia;
    DAT_SRQ_HANDLE srq;
    ep_fixture active_a, active_b, passive_a, passive_b;
    memory buffer;
};

void srq_query_returns_create_arguments(void **) {
    ia_fixture ia;
    DAT_SRQ_HANDLE const srq = ia.create_srq(10);
    const DAT_SRQ_PARAM param = query_srq(srq);
    assert_ptr_equal(param.ia_handle, first_registry_ia);
    assert_ptr_equal(param.pz_handle, ia.pz);
    assert_int_equal(param.srq_state, DAT_SRQ_STATE_OPERATIONAL);
    assert_int_equal(param.max_recv_dtos, 16); // rounded up by the device
    assert_int_equal(param.max_recv_iov, 4);
    assert_int_equal(param.low_watermark, 0);
    assert_int_equal(param.available_dto_count, DAT_VALUE_UNKNOWN);
    assert_int_equal(param.outstanding_dto_count, 0);
    assert_success(dat().srq_free_func(srq));
}

void eps_take_receives_of_shared_srq(void **) {
    srq_fixture fixture;
    for (std::uint64_t id = 1; id != 5; ++id)
        assert_success(fixture.post_recv(cookie(id)));
    assert_int_equal(query_srq(fixture.srq).outstanding_dto_count, 4);
    fixture.post_send(fixture.active_b);
    fixture.post_send(fixture.active_a);
    assert_ptr_equal(
        assert_completion(fixture.passive_b.recv_evd, cookie(1), DAT_DTO_SUCCESS, 64).ep_handle,
        fixture.passive_b.handle);
    assert_ptr_equal(
        assert_completion(fixture.passive_a.recv_evd, cookie(2), DAT_DTO_SUCCESS, 64).ep_handle,
        fixture.passive_a.handle);
    assert_int_equal(query_srq(fixture.srq).outstanding_dto_count, 2);
}

void recv_post_to_srq_ep_rejected(void **) {
    srq_fixture fixture;
    DAT_LMR_TRIPLET iov = fixture.buffer.lmr_triplet(0, 64);
    assert_int_equal(dat().ep_post_recv_func(fixture.passive_a.handle, 1, &iov, cookie(1),
                                             DAT_COMPLETION_DEFAULT_FLAG),
                     invalid_state(DAT_INVALID_STATE_SRQ_IN_USE));
    DAT_EP_PARAM param = {};
    assert_success(dat().ep_query_func(fixture.passive_a.handle, DAT_EP_FIELD_ALL, &param));
    assert_ptr_equal(param.srq_handle, fixture.srq);
}

void max_recv_dtos_of_srq_can_be_posted(void **) {
    srq_fixture fixture;
    for (std::uint64_t id = 0; id != 8; ++id)
        assert_success(fixture.post_recv(cookie(id)));
    assert_int_equal(fixture.post_recv(cookie(9)),
                     dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY));
    for (int i = 0; i != 20; ++i) { // cookies are reused, in any order
        fixture.post_send(i % 3 == 0 ? fixture.active_a : fixture.active_b);
        wait_event(i % 3 == 0 ? fixture.passive_a.recv_evd : fixture.passive_b.recv_evd,
                   DAT_DTO_COMPLETION_EVENT);
        assert_success(fixture.post_recv(cookie(static_cast<std::uint64_t>(i))));
    }
}

void srq_resize_grows_queue(void **) {
    srq_fixture fixture;
    for (std::uint64_t id = 0; id != 8; ++id)
        assert_success(fixture.post_recv(cookie(id)));
    assert_int_equal(dat().srq_resize_func(fixture.srq, 7),
                     invalid_state(DAT_INVALID_STATE_SRQ_IN_USE));
    assert_success(dat().srq_resize_func(fixture.srq, 20));
    assert_int_equal(query_srq(fixture.srq).max_recv_dtos, 32);
    for (std::uint64_t id = 8; id != 32; ++id)
        assert_success(fixture.post_recv(cookie(id)));
    assert_int_equal(fixture.post_recv(cookie(0)),
                     dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY));
}

// The size that the device returned limits posting, watermarks and queries.
void srq_size_as_rounded_by_device(void **) {
    for (const bool query_supported : {true, false}) {
        reset_fabric(nullptr);
        get_fabric().fail_query_srq = !query_supported;
        ia_fixture ia;
        memory buffer(ia);
        DAT_LMR_TRIPLET iov = buffer.lmr_triplet(0, 64);
        DAT_SRQ_HANDLE const srq = ia.create_srq(5);
        DAT_COUNT size = query_supported ? 8 : 5;
        assert_int_equal(query_srq(srq).max_recv_dtos, size);
        for (DAT_COUNT count = 0; count != size; ++count)
            assert_success(dat().srq_post_recv_func(srq, 1, &iov, cookie(1)));
        assert_int_equal(dat().srq_post_recv_func(srq, 1, &iov, cookie(1)),
                         dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY));
        assert_int_equal(dat().srq_set_lw_func(srq, size + 1), invalid_parameter(2));
        assert_success(dat().srq_set_lw_func(srq, size));
        assert_int_equal(dat().srq_resize_func(srq, size - 1),
                         invalid_state(DAT_INVALID_STATE_SRQ_IN_USE));
        assert_success(dat().srq_resize_func(srq, 17));
        size = query_supported ? 32 : 17;
        assert_int_equal(query_srq(srq).max_recv_dtos, size);
        assert_int_equal(query_srq(srq).low_watermark, query_supported ? 8 : 5);
        assert_int_equal(query_srq(srq).max_recv_iov, 4);
        assert_success(dat().srq_set_lw_func(srq, size));
        assert_success(dat().srq_free_func(srq));
    }
}

void srq_with_more_sge_than_device_rejected(void **) {
    ia_fixture ia;
    DAT_SRQ_ATTR attr = {};
    attr.max_recv_dtos = 4;
    attr.max_recv_iov = get_fabric().devices[0].attr.max_srq_sge + 1;
    DAT_SRQ_HANDLE srq = &attr;
    assert_int_equal(dat().srq_create_func(ia.handle, ia.pz, &attr, &srq),
                     dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_SRQ));
    assert_ptr_equal(srq, &attr);
}

void srq_resize_unsupported_by_device_fails(void **) {
    ia_fixture ia;
    DAT_SRQ_HANDLE const srq = ia.create_srq(8);
    get_fabric().injected.fail_always("ibv_modify_srq", EOPNOTSUPP);
    assert_int_equal(dat().srq_resize_func(srq, 100), dat_error(DAT_MODEL_NOT_SUPPORTED));
    assert_int_equal(dat().srq_set_lw_func(srq, 3), dat_error(DAT_MODEL_NOT_SUPPORTED));
    get_fabric().injected.fail_always("ibv_modify_srq", ENOMEM);
    assert_int_equal(dat().srq_resize_func(srq, 100),
                     dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_SRQ));
    assert_int_equal(query_srq(srq).max_recv_dtos, 8);
    assert_int_equal(query_srq(srq).low_watermark, 0);
    get_fabric().injected.fail_none();
    assert_success(dat().srq_free_func(srq));
}

void srq_unsupported_by_device_rejected(void **) {
    get_fabric().devices[0].attr.max_srq = 0;
    ia_fixture ia;
    DAT_SRQ_ATTR attr = {};
    attr.max_recv_dtos = attr.max_recv_iov = 1;
    DAT_SRQ_HANDLE srq;
    assert_int_equal(dat().srq_create_func(ia.handle, ia.pz, &attr, &srq),
                     dat_error(DAT_MODEL_NOT_SUPPORTED));
}

DAT_EVENT assert_async_event(const ia_fixture &ia, DAT_HANDLE handle, DAT_COUNT reason) {
    const DAT_EVENT event = wait_event(ia.async_evd, DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR);
    assert_ptr_equal(event.event_data.asynch_error_event_data.dat_handle, handle);
    assert_int_equal(event.event_data.asynch_error_event_data.reason, reason);
    return event;
}

/// The event disarms the watermark.
void low_watermark_reported_once(void **) {
    srq_fixture fixture;
    assert_success(dat().srq_set_lw_func(fixture.srq, 2));
    assert_int_equal(query_srq(fixture.srq).low_watermark, 2);
    for (std::uint64_t id = 0; id != 4; ++id)
        assert_success(fixture.post_recv(cookie(id)));
    fixture.post_send(fixture.active_a);
    fixture.post_send(fixture.active_a);
    assert_no_event(fixture.ia.async_evd);
    fixture.post_send(fixture.active_a);
    assert_async_event(fixture.ia, fixture.srq, DAT_SRQ_LOW_WATERMARK_EVENT);
    assert_int_equal(query_srq(fixture.srq).low_watermark, 0);
    fixture.post_send(fixture.active_a);
    assert_no_event(fixture.ia.async_evd);
}

void low_watermark_of_create_kept(void **) {
    ia_fixture ia;
    DAT_SRQ_ATTR attr = {};
    attr.max_recv_dtos = 8;
    attr.max_recv_iov = 1;
    attr.low_watermark = 5;
    DAT_SRQ_HANDLE srq;
    assert_success(dat().srq_create_func(ia.handle, ia.pz, &attr, &srq));
    assert_int_equal(query_srq(srq).low_watermark, 5);
    assert_int_equal(dat().srq_resize_func(srq, 4), invalid_state(DAT_INVALID_STATE_SRQ_IN_USE));
    assert_success(dat().srq_free_func(srq));
}

/// dat_ep_recv_query counts the receives that completed and whose events the consumer has not
/// dequeued.
void recv_query_counts_unread_completions(void **) {
    srq_fixture fixture;
    for (std::uint64_t id = 0; id != 4; ++id)
        assert_success(fixture.post_recv(cookie(id)));
    for (int i = 0; i != 3; ++i)
        fixture.post_send(fixture.active_a);
    DAT_COUNT allocated, span;
    assert_success(dat().ep_recv_query_func(fixture.passive_a.handle, &allocated, &span));
    assert_int_equal(allocated, 3);
    assert_success(dat().ep_recv_query_func(fixture.passive_b.handle, &allocated, nullptr));
    assert_int_equal(allocated, 0);
    wait_event(fixture.passive_a.recv_evd, DAT_DTO_COMPLETION_EVENT);
    assert_success(dat().ep_recv_query_func(fixture.passive_a.handle, &allocated, &span));
    assert_int_equal(allocated, 2);
}

/// Of the receives that an EP has taken from the SRQ; checked by calls, not by an event.
void soft_high_watermark_reported_once(void **) {
    srq_fixture fixture;
    assert_success(
        dat().ep_set_watermark_func(fixture.passive_a.handle, 1, DAT_WATERMARK_INFINITE));
    for (std::uint64_t id = 0; id != 4; ++id)
        assert_success(fixture.post_recv(cookie(id)));
    DAT_COUNT allocated;
    fixture.post_send(fixture.active_a);
    assert_success(dat().ep_recv_query_func(fixture.passive_a.handle, &allocated, nullptr));
    assert_no_event(fixture.ia.async_evd); // at the watermark, not above it
    for (int i = 0; i != 2; ++i)
        fixture.post_send(fixture.active_a);
    assert_success(dat().ep_recv_query_func(fixture.passive_a.handle, &allocated,
                                            nullptr)); // checks the watermark
    assert_async_event(fixture.ia, fixture.passive_a.handle, DAT_SRQ_SOFT_HIGH_WATERMARK_EVENT);
    assert_no_event(fixture.ia.async_evd);
}

void hard_high_watermark_breaks_connection(void **) {
    srq_fixture fixture;
    for (std::uint64_t id = 0; id != 4; ++id)
        assert_success(fixture.post_recv(cookie(id)));
    for (int i = 0; i != 3; ++i)
        fixture.post_send(fixture.active_a);
    DAT_COUNT allocated;
    assert_success(dat().ep_recv_query_func(fixture.passive_a.handle, &allocated, nullptr));
    assert_success(
        dat().ep_set_watermark_func(fixture.passive_a.handle, DAT_WATERMARK_INFINITE, 2));
    wait_event(fixture.passive_a.connect_evd, DAT_CONNECTION_EVENT_BROKEN);
    wait_event(fixture.active_a.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    disconnect(fixture.active_b, fixture.passive_b);
    fixture.ia.close(); // with all its objects
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        TEST(srq_query_returns_create_arguments),
        TEST(eps_take_receives_of_shared_srq),
        TEST(recv_post_to_srq_ep_rejected),
        TEST(max_recv_dtos_of_srq_can_be_posted),
        TEST(srq_resize_grows_queue),
        TEST(srq_size_as_rounded_by_device),
        TEST(srq_with_more_sge_than_device_rejected),
        TEST(srq_resize_unsupported_by_device_fails),
        TEST(srq_unsupported_by_device_rejected),
        TEST(low_watermark_reported_once),
        TEST(low_watermark_of_create_kept),
        TEST(recv_query_counts_unread_completions),
        TEST(soft_high_watermark_reported_once),
        TEST(hard_high_watermark_breaks_connection),
    };
    return run_cases(tests);
}
