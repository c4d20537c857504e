// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Asynchronous events of devices, and the EVDs that get them; opening, querying and closing IAs.

#include "fake/two_eps.hpp"

using namespace fake;

namespace {

void assert_async_event(DAT_EVD_HANDLE evd, DAT_UINT32 number, DAT_HANDLE handle,
                        DAT_COUNT reason) {
    const DAT_EVENT event = wait_event(evd, number);
    assert_ptr_equal(event.event_data.asynch_error_event_data.dat_handle, handle);
    assert_int_equal(event.event_data.asynch_error_event_data.reason, reason);
}

void qp_error_reported_as_ep_broken(void **) {
    connected_eps eps;
    for (const ibv_event_type it :
         {IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR, IBV_EVENT_QP_ACCESS_ERR}) {
        get_fabric().queue_async_event(0, it, qp_of(eps.active.handle));
        assert_async_event(eps.ia.async_evd, DAT_ASYNC_ERROR_EP_BROKEN, eps.active.handle,
                           DAT_EP_TRANSFER_TO_ERROR);
    }
}

/// Although the asynchronous EVD was opened with a smaller queue.
void qp_errors_beyond_qlen_all_reported(void **) {
    connected_eps eps;
    ia_fixture second_ia;
    for (int it = 0; it < 30; ++it)
        get_fabric().queue_async_event(0, IBV_EVENT_QP_FATAL, qp_of(eps.active.handle));
    get_fabric().queue_async_event(0, IBV_EVENT_DEVICE_FATAL);
    wait_event(second_ia.async_evd, DAT_ASYNC_ERROR_IA_CATASTROPHIC); // now all events are queued
    for (int it = 0; it < 30; ++it)
        assert_async_event(eps.ia.async_evd, DAT_ASYNC_ERROR_EP_BROKEN, eps.active.handle,
                           DAT_EP_TRANSFER_TO_ERROR);
    wait_event(eps.ia.async_evd, DAT_ASYNC_ERROR_IA_CATASTROPHIC);
    assert_no_event(eps.ia.async_evd);
}

void harmless_async_events_not_reported(void **) {
    connected_eps eps;
    for (const ibv_event_type it : {IBV_EVENT_SQ_DRAINED, IBV_EVENT_PATH_MIG, IBV_EVENT_COMM_EST})
        get_fabric().queue_async_event(0, it, qp_of(eps.active.handle));
    for (const ibv_event_type it :
         {IBV_EVENT_PORT_ACTIVE, IBV_EVENT_PORT_ERR, IBV_EVENT_LID_CHANGE, IBV_EVENT_GID_CHANGE})
        get_fabric().queue_async_event(0, it);
    assert_no_event(eps.ia.async_evd);
}

void cq_error_reported_as_evd_overflow(void **) {
    connected_eps eps;
    get_fabric().queue_async_event(0, IBV_EVENT_CQ_ERR, qp_of(eps.active.handle)->send_cq);
    assert_async_event(eps.ia.async_evd, DAT_ASYNC_ERROR_EVD_OVERFLOW, eps.active.request_evd,
                       DAT_EVD_OVERFLOW_ERROR);
}

void srq_error_reported(void **) {
    ia_fixture ia;
    DAT_SRQ_HANDLE const srq = ia.create_srq();
    ep_fixture ep(ia, nullptr, srq);
    get_fabric().queue_async_event(0, IBV_EVENT_SRQ_ERR, qp_of(ep.handle)->srq);
    assert_async_event(ia.async_evd, DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR, srq,
                       DAT_SRQ_TRANSFER_TO_ERROR);
    DAT_SRQ_PARAM param = {};
    assert_success(dat().srq_query_func(srq, DAT_SRQ_FIELD_ALL, &param));
    assert_int_equal(param.srq_state, DAT_SRQ_STATE_ERROR);
    ep.free();
    assert_success(dat().srq_free_func(srq));
}

void device_fatal_reported_to_each_ia_of_device(void **) {
    ia_fixture ia, second_ia, other_ia("iwarp");
    get_fabric().queue_async_event(0, IBV_EVENT_DEVICE_FATAL);
    for (const ia_fixture *it : {&ia, &second_ia}) {
        DAT_PZ_PARAM param = {}; // returns the consumer's IA handle
        assert_success(dat().pz_query_func(it->pz, DAT_PZ_FIELD_ALL, &param));
        assert_async_event(it->async_evd, DAT_ASYNC_ERROR_IA_CATASTROPHIC, param.ia_handle,
                           DAT_IA_CATASTROPHIC_ERROR);
    }
    assert_no_event(other_ia.async_evd);
}

/// An EP with an SRQ reports when it takes no more receives from it, after its disconnect.
void last_wqe_of_srq_reported_once(void **) {
    ia_fixture ia;
    DAT_SRQ_HANDLE const srq = ia.create_srq();
    ep_fixture ep(ia), peer_ep(ia, nullptr, srq);
    connect(ep, peer_ep);
    disconnect(ep, peer_ep);
    assert_async_event(ia.async_evd, DAT_ASYNC_ERROR_EP_BROKEN, peer_ep.handle, DAT_EP_OTHER_ERROR);
    assert_no_event(ia.async_evd); // once
    ep.free();
    peer_ep.free();
    assert_success(dat().srq_free_func(srq));
}

/// OFED's dtestsrq compares the two EVDs event by event. On iWARP the device reports the last WQE
/// before the disconnect.
void last_wqe_events_in_order_of_disconnects(void **) {
    constexpr unsigned iwarp_device = 1;
    ia_fixture ia("iwarp");
    DAT_SRQ_HANDLE const srq = ia.create_srq();
    ep_fixture ep_a(ia), ep_b(ia), srq_ep_a(ia, nullptr, srq), srq_ep_b(ia, nullptr, srq),
        unconnected_ep(ia);
    connect(ep_a, srq_ep_a);
    connect(ep_b, srq_ep_b);
    for (const ep_fixture *it : {&srq_ep_b, &srq_ep_a})
        get_fabric().queue_async_event(iwarp_device, IBV_EVENT_QP_LAST_WQE_REACHED,
                                       qp_of(it->handle));
    get_fabric().queue_async_event(
        iwarp_device, IBV_EVENT_QP_FATAL,
        qp_of(unconnected_ep.handle)); // the two events before are not reported
    assert_async_event(ia.async_evd, DAT_ASYNC_ERROR_EP_BROKEN, unconnected_ep.handle,
                       DAT_EP_TRANSFER_TO_ERROR);
    disconnect(ep_a, srq_ep_a);
    disconnect(ep_b, srq_ep_b);
    assert_async_event(ia.async_evd, DAT_ASYNC_ERROR_EP_BROKEN, srq_ep_a.handle,
                       DAT_EP_OTHER_ERROR);
    assert_async_event(ia.async_evd, DAT_ASYNC_ERROR_EP_BROKEN, srq_ep_b.handle,
                       DAT_EP_OTHER_ERROR);
    assert_no_event(ia.async_evd);
    for (ep_fixture *it : {&ep_a, &ep_b, &srq_ep_a, &srq_ep_b, &unconnected_ep})
        it->free();
    assert_success(dat().srq_free_func(srq));
}

// -- IAs

/// Each of the two IAs reports the event.
void async_evd_shared_by_two_ias(void **) {
    ia_fixture first;
    char name[] = "roce";
    DAT_EVD_HANDLE async = first.async_evd;
    DAT_IA_HANDLE second;
    assert_success(dat().ia_open_func(name, 0, &async, &second));
    assert_ptr_equal(async, first.async_evd);
    get_fabric().queue_async_event(0, IBV_EVENT_DEVICE_FATAL);
    wait_event(first.async_evd, DAT_ASYNC_ERROR_IA_CATASTROPHIC);
    wait_event(first.async_evd, DAT_ASYNC_ERROR_IA_CATASTROPHIC);
    assert_success(dat().ia_close_func(second, DAT_CLOSE_GRACEFUL_FLAG));
}

/// With DAT_EVD_ASYNC_EXISTS the IA has no asynchronous EVD, and its events are dropped.
void ia_opened_without_async_evd(void **) {
    char name[] = "roce";
    DAT_EVD_HANDLE async = DAT_EVD_ASYNC_EXISTS, queried = &async;
    DAT_IA_HANDLE ia;
    assert_success(dat().ia_open_func(name, 0, &async, &ia));
    assert_ptr_equal(async, DAT_EVD_ASYNC_EXISTS);
    assert_success(dat().ia_query_func(ia, &queried, 0, nullptr, 0, nullptr));
    assert_ptr_equal(queried, DAT_EVD_OUT_OF_SCOPE);
    get_fabric().queue_async_event(0, IBV_EVENT_DEVICE_FATAL);
    assert_success(dat().ia_close_func(ia, DAT_CLOSE_GRACEFUL_FLAG));
}

void ia_query_matches_device_limits(void **) {
    ia_fixture ia;
    DAT_IA_ATTR attr = {};
    DAT_PROVIDER_ATTR provider_attr = {};
    DAT_EVD_HANDLE async;
    assert_success(dat().ia_query_func(ia.handle, &async, DAT_IA_FIELD_ALL, &attr,
                                       DAT_PROVIDER_FIELD_ALL, &provider_attr));
    assert_ptr_equal(async, ia.async_evd);
    assert_string_equal(attr.adapter_name, "fake0");
    assert_int_equal(attr.firmware_version_major, 2);
    assert_int_equal(attr.firmware_version_minor, 41);
    assert_int_equal(attr.hardware_version_major, 7);
    assert_int_equal(attr.max_eps, 1000);
    assert_int_equal(attr.max_dto_per_ep, 4096);
    assert_int_equal(attr.max_rdma_read_per_ep_in, 16);
    assert_int_equal(attr.max_rdma_read_per_ep_out, 8);
    assert_int_equal(attr.max_evds, 2000);
    assert_int_equal(attr.max_evd_qlen, 100000);
    assert_int_equal(attr.max_iov_segments_per_dto, 8);
    assert_int_equal(attr.max_lmrs, 200000);
    assert_int_equal(attr.max_pzs, 300);
    assert_int_equal(attr.max_message_size, 1 << 20);
    assert_int_equal(attr.max_rmrs, 500);
    assert_int_equal(attr.max_srqs, 60);
    assert_int_equal(attr.max_recv_per_srq, 1000);
    assert_int_equal(attr.extension_supported, DAT_EXTENSION_IB);
    const auto &address = reinterpret_cast<const sockaddr_in &>(*attr.ia_address_ptr);
    assert_int_equal(address.sin_addr.s_addr, inet_addr("192.0.2.1"));
    assert_string_equal(provider_attr.provider_name, "coherdma");
    assert_int_equal(provider_attr.is_thread_safe, DAT_TRUE);
    assert_int_equal(provider_attr.max_private_data_size, 56);
    assert_int_equal(provider_attr.srq_supported, DAT_TRUE);
}

void consumer_context_and_handle_type_kept(void **) {
    ia_fixture ia;
    for (DAT_HANDLE it : {ia.handle, ia.pz, ia.async_evd}) {
        DAT_CONTEXT id = {}, consumer_context = {};
        assert_success(dat().get_consumer_context_func(it, &consumer_context));
        assert_int_equal(consumer_context.as_64, 0);
        id.as_64 = 0x123456789abcdef0;
        assert_success(dat().set_consumer_context_func(it, id));
        assert_success(dat().get_consumer_context_func(it, &consumer_context));
        assert_int_equal(consumer_context.as_64, id.as_64);
    }
    DAT_HANDLE_TYPE kind;
    assert_success(dat().get_handle_type_func(ia.handle, &kind));
    assert_int_equal(kind, DAT_HANDLE_TYPE_IA);
    assert_success(dat().get_handle_type_func(ia.pz, &kind));
    assert_int_equal(kind, DAT_HANDLE_TYPE_PZ);
    assert_success(dat().get_handle_type_func(ia.async_evd, &kind));
    assert_int_equal(kind, DAT_HANDLE_TYPE_EVD);
}

void ia_ha_related_is_false(void **) {
    ia_fixture ia;
    char name[] = "iwarp";
    DAT_BOOLEAN related = DAT_TRUE;
    assert_success(dat().ia_ha_related_func(ia.handle, name, &related));
    assert_int_equal(related, DAT_FALSE);
}

void abrupt_close_frees_all_objects(void **) {
    for (const char *ia_name : {"roce", "iwarp"}) {
        reset_fabric(nullptr);
        connected_eps eps(ia_name);
        assert_success(eps.post_recv(64, cookie(1)));
        eps.ia.create_cno();
        eps.ia.create_evd(DAT_EVD_SOFTWARE_FLAG, 3, eps.ia.create_cno());
        DAT_HANDLE const handles[] = {eps.active.handle, eps.passive.handle, eps.active_memory.lmr,
                                      eps.ia.pz};
        eps.ia.close(DAT_CLOSE_ABRUPT_FLAG);
        DAT_HANDLE_TYPE kind;
        for (DAT_HANDLE handle : handles)
            assert_int_equal(dat().get_handle_type_func(handle, &kind),
                             invalid_handle(DAT_INVALID_HANDLE1));
        assert_int_equal(get_fabric().num_all_objects(), 0);
    }
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        TEST(qp_error_reported_as_ep_broken),
        TEST(qp_errors_beyond_qlen_all_reported),
        TEST(harmless_async_events_not_reported),
        TEST(cq_error_reported_as_evd_overflow),
        TEST(srq_error_reported),
        TEST(device_fatal_reported_to_each_ia_of_device),
        TEST(last_wqe_of_srq_reported_once),
        TEST(last_wqe_events_in_order_of_disconnects),
        TEST(async_evd_shared_by_two_ias),
        TEST(ia_opened_without_async_evd),
        TEST(ia_query_matches_device_limits),
        TEST(consumer_context_and_handle_type_kept),
        TEST(ia_ha_related_is_false),
        TEST(abrupt_close_frees_all_objects),
    };
    return run_cases(tests);
}
