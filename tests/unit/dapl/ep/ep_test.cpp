// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// EPs: create, query, modify, reset, free.

#include "fake/two_eps.hpp"

#include <limits>

using namespace fake;

namespace {

DAT_EP_PARAM query_ep(DAT_EP_HANDLE ep) {
    DAT_EP_PARAM param = {};
    assert_success(dat().ep_query_func(ep, DAT_EP_FIELD_ALL, &param));
    return param;
}

void ep_query_returns_create_arguments(void **) {
    ia_fixture ia;
    ep_fixture ep(ia);
    const DAT_EP_PARAM param = query_ep(ep.handle);
    assert_ptr_equal(param.ia_handle,
                     first_registry_ia); // the IA handle of the registry
    assert_int_equal(param.ep_state, DAT_EP_STATE_UNCONNECTED);
    assert_ptr_equal(param.pz_handle, ia.pz);
    assert_ptr_equal(param.recv_evd_handle, ep.recv_evd);
    assert_ptr_equal(param.request_evd_handle, ep.request_evd);
    assert_ptr_equal(param.connect_evd_handle, ep.connect_evd);
    assert_null(param.srq_handle);
    assert_int_equal(param.ep_attr.max_recv_dtos, 16);
    assert_int_equal(param.ep_attr.max_request_dtos, 16);
    assert_int_equal(param.ep_attr.max_recv_iov, 4);
    assert_int_equal(param.ep_attr.max_request_iov, 4);
    assert_int_equal(param.ep_attr.max_rdma_write_iov, 4);
    assert_int_equal(param.ep_attr.max_rdma_read_in, 4);
    assert_int_equal(param.ep_attr.max_message_size, 1 << 20);
    assert_int_equal(param.ep_attr.service_type, DAT_SERVICE_TYPE_RC);
}

void ep_attributes_as_requested(void **) {
    ia_fixture ia;
    DAT_EP_ATTR attr = {};
    attr.max_recv_dtos = 3;
    attr.max_request_dtos = 5;
    attr.max_recv_iov = 1;
    attr.max_request_iov = 2;
    attr.max_rdma_read_out = 8;
    attr.max_message_size = 100;
    ep_fixture ep(ia, &attr);
    const DAT_EP_ATTR ep_attr = query_ep(ep.handle).ep_attr;
    assert_int_equal(ep_attr.max_recv_dtos, 3);
    assert_int_equal(ep_attr.max_request_dtos, 5);
    assert_int_equal(ep_attr.max_recv_iov, 1);
    assert_int_equal(ep_attr.max_request_iov, 2);
    assert_int_equal(ep_attr.max_rdma_read_in, 0); // 0 means none, not the default
    assert_int_equal(ep_attr.max_rdma_read_out, 8);
    assert_int_equal(ep_attr.max_message_size, 100);
    assert_int_equal(ep_attr.max_rdma_size, 1 << 20);
}

void ep_without_queue_needs_no_evd(void **) {
    ia_fixture ia;
    DAT_EVD_HANDLE const requests = ia.create_evd(DAT_EVD_DTO_FLAG);
    DAT_EP_HANDLE send_ep, receives;
    assert_success(dat().ep_create_func(ia.handle, ia.pz, DAT_HANDLE_NULL, requests,
                                        DAT_HANDLE_NULL, nullptr, &send_ep));
    assert_success(dat().ep_create_func(ia.handle, ia.pz, requests, DAT_HANDLE_NULL,
                                        DAT_HANDLE_NULL, nullptr, &receives));
    assert_int_equal(query_ep(send_ep).ep_attr.max_recv_dtos, 0);
    assert_int_equal(query_ep(receives).ep_attr.max_request_dtos, 0);
    assert_success(dat().ep_free_func(send_ep));
    assert_success(dat().ep_free_func(receives));
    assert_success(dat().evd_free_func(requests));
}

void objects_of_ep_not_freeable(void **) {
    ia_fixture ia;
    DAT_SRQ_HANDLE const srq = ia.create_srq();
    ep_fixture ep(ia, nullptr, srq);
    const auto in_use = invalid_state(DAT_INVALID_STATE_EVD_IN_USE);
    assert_int_equal(dat().evd_free_func(ep.recv_evd), in_use);
    assert_int_equal(dat().evd_free_func(ep.request_evd), in_use);
    assert_int_equal(dat().evd_free_func(ep.connect_evd), in_use);
    assert_int_equal(dat().pz_free_func(ia.pz), invalid_state(DAT_INVALID_STATE_PZ_IN_USE));
    assert_int_equal(dat().srq_free_func(srq), invalid_state(DAT_INVALID_STATE_SRQ_IN_USE));
    ep.free();
    assert_success(dat().srq_free_func(srq));
}

void only_connect_evd_may_belong_to_other_ia(void **) {
    ia_fixture ia, other_ia;
    ep_fixture ep(ia), other_ep(other_ia);
    DAT_SRQ_HANDLE const srq = ia.create_srq();
    const auto create = [&](DAT_EVD_HANDLE recv_evd, DAT_EVD_HANDLE request_evd,
                            DAT_SRQ_HANDLE ep_srq) {
        DAT_EP_HANDLE created;
        const DAT_RETURN result =
            ep_srq == DAT_HANDLE_NULL
                ? dat().ep_create_func(ia.handle, ia.pz, recv_evd, request_evd,
                                       other_ep.connect_evd, nullptr, &created)
                : dat().ep_create_with_srq_func(ia.handle, ia.pz, recv_evd, request_evd,
                                                other_ep.connect_evd, ep_srq, nullptr, &created);
        if (result == DAT_SUCCESS) {
            assert_ptr_equal(query_ep(created).connect_evd_handle, other_ep.connect_evd);
            assert_success(dat().ep_free_func(created));
        }
        return result;
    };
    for (DAT_SRQ_HANDLE const ep_srq : {DAT_SRQ_HANDLE{DAT_HANDLE_NULL}, srq}) {
        assert_success(create(ep.recv_evd, ep.request_evd, ep_srq));
        assert_int_equal(create(other_ep.recv_evd, ep.request_evd, ep_srq),
                         invalid_handle(DAT_INVALID_HANDLE_EVD_RECV));
        assert_int_equal(create(ep.recv_evd, other_ep.request_evd, ep_srq),
                         invalid_handle(DAT_INVALID_HANDLE_EVD_REQUEST));
    }
    assert_success(dat().srq_free_func(srq));
}

// -- modify

/// As for dat_ep_create, but for dat_ep_modify.
void only_new_connect_evd_may_belong_to_other_ia(void **) {
    ia_fixture ia, other_ia;
    ep_fixture ep(ia), other_ep(other_ia);
    DAT_EP_PARAM param = {};
    param.recv_evd_handle = other_ep.recv_evd;
    param.request_evd_handle = other_ep.request_evd;
    param.connect_evd_handle = other_ep.connect_evd;
    const auto modify = [&](DAT_EP_PARAM_MASK mask) {
        return dat().ep_modify_func(ep.handle, mask, &param);
    };
    assert_int_equal(modify(DAT_EP_FIELD_RECV_EVD_HANDLE),
                     invalid_handle(DAT_INVALID_HANDLE_EVD_RECV));
    assert_int_equal(modify(DAT_EP_FIELD_REQUEST_EVD_HANDLE),
                     invalid_handle(DAT_INVALID_HANDLE_EVD_REQUEST));
    assert_success(modify(DAT_EP_FIELD_CONNECT_EVD_HANDLE));
    assert_ptr_equal(query_ep(ep.handle).connect_evd_handle, other_ep.connect_evd);
    assert_int_equal(dat().evd_free_func(other_ep.connect_evd),
                     invalid_state(DAT_INVALID_STATE_EVD_IN_USE));
    param.connect_evd_handle = ep.connect_evd;
    assert_success(modify(DAT_EP_FIELD_CONNECT_EVD_HANDLE));
}

void ep_modify_grows_queues(void **) {
    ia_fixture ia;
    ep_fixture ep(ia);
    DAT_EP_PARAM param = {};
    param.ep_attr.max_request_dtos = 100;
    param.ep_attr.max_recv_iov = 8;
    assert_success(dat().ep_modify_func(
        ep.handle, DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS | DAT_EP_FIELD_EP_ATTR_MAX_RECV_IOV,
        &param));
    const DAT_EP_ATTR ep_attr = query_ep(ep.handle).ep_attr;
    assert_int_equal(ep_attr.max_request_dtos, 100);
    assert_int_equal(ep_attr.max_recv_iov, 8);
    assert_int_equal(ep_attr.max_recv_dtos, 16); // not in the mask
}

constexpr DAT_EP_PARAM_MASK all_handles = DAT_EP_FIELD_PZ_HANDLE | DAT_EP_FIELD_RECV_EVD_HANDLE |
                                          DAT_EP_FIELD_REQUEST_EVD_HANDLE |
                                          DAT_EP_FIELD_CONNECT_EVD_HANDLE;

DAT_EP_PARAM handles_of(const ep_fixture &ep) {
    DAT_EP_PARAM param = {};
    param.pz_handle = ep.ia.pz;
    param.recv_evd_handle = ep.recv_evd;
    param.request_evd_handle = ep.request_evd;
    param.connect_evd_handle = ep.connect_evd;
    return param;
}

/// An EP that was created without handles gets them by dat_ep_modify, and can be connected then.
void ep_modify_completes_bare_ep(void **) {
    ia_fixture ia;
    ep_fixture ep(ia);
    DAT_EP_HANDLE ep_without_qp;
    assert_success(dat().ep_create_func(ia.handle, DAT_HANDLE_NULL, DAT_HANDLE_NULL,
                                        DAT_HANDLE_NULL, DAT_HANDLE_NULL, nullptr, &ep_without_qp));
    DAT_EP_PARAM param = handles_of(ep);
    param.ep_attr.max_recv_dtos = param.ep_attr.max_request_dtos = 4;
    param.ep_attr.max_recv_iov = param.ep_attr.max_request_iov = 2;
    assert_success(dat().ep_modify_func(
        ep_without_qp,
        all_handles | DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS | DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS |
            DAT_EP_FIELD_EP_ATTR_MAX_RECV_IOV | DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_IOV,
        &param));
    assert_ptr_equal(query_ep(ep_without_qp).pz_handle, ia.pz);
    ep_fixture peer_ep(ia);
    ep_fixture other_ep(ia);
    std::swap(other_ep.handle, ep_without_qp);
    // The modified EP can be connected and uses the new EVDs.
    DAT_EVD_HANDLE const requests = ia.create_evd(DAT_EVD_CR_FLAG);
    DAT_CR_HANDLE const request = request_connection(peer_ep, ia, requests);
    assert_success(dat().cr_accept_func(request, other_ep.handle, 0, nullptr));
    wait_event(ep.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    assert_success(dat().ep_free_func(other_ep.handle));
    wait_event(peer_ep.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    other_ep.handle = ep_without_qp;
    other_ep.free();
    peer_ep.free();
    ep.free();
    assert_success(dat().evd_free_func(requests));
}

void ep_modify_to_same_handles_keeps_refs(void **) {
    ia_fixture ia;
    ep_fixture ep(ia);
    DAT_EP_PARAM param = handles_of(ep);
    for (int i = 0; i != 3; ++i)
        assert_success(dat().ep_modify_func(ep.handle, all_handles, &param));
    ep.free(); // no reference is left
}

/// The EP references the EVDs and the PZ that it was modified to, and no more the old ones.
void ep_modify_drops_old_evd_ref(void **) {
    ia_fixture ia;
    ep_fixture ep(ia), peer_ep(ia);
    DAT_EP_PARAM param = handles_of(peer_ep);
    param.pz_handle = ia.create_pz();
    assert_success(dat().ep_modify_func(ep.handle, all_handles, &param));
    assert_success(dat().evd_free_func(ep.recv_evd));
    assert_success(dat().evd_free_func(ep.request_evd));
    assert_success(dat().evd_free_func(ep.connect_evd));
    assert_success(dat().ep_free_func(peer_ep.handle));
    assert_int_equal(dat().evd_free_func(peer_ep.recv_evd),
                     invalid_state(DAT_INVALID_STATE_EVD_IN_USE));
    assert_success(dat().pz_free_func(ia.pz));
    std::swap(ep.handle, peer_ep.handle);
    peer_ep.free();
    assert_success(dat().pz_free_func(param.pz_handle));
    ia.close(DAT_CLOSE_GRACEFUL_FLAG);
}

void rejected_ep_modify_changes_nothing(void **) {
    ia_fixture ia;
    ep_fixture ep(ia);
    DAT_EP_PARAM param = handles_of(ep);
    param.pz_handle = ia.create_pz();
    param.request_evd_handle = ep.connect_evd; // not a DTO EVD
    assert_int_equal(dat().ep_modify_func(ep.handle, all_handles, &param),
                     invalid_handle(DAT_INVALID_HANDLE_EVD_REQUEST));
    const DAT_EP_PARAM queried = query_ep(ep.handle);
    assert_ptr_equal(queried.pz_handle, ia.pz);
    assert_ptr_equal(queried.request_evd_handle, ep.request_evd);
    assert_success(dat().pz_free_func(param.pz_handle));
}

void ep_modify_with_posted_receives_rejected(void **) {
    ia_fixture ia;
    ep_fixture ep(ia);
    memory buffer(ia);
    DAT_LMR_TRIPLET iov = buffer.lmr_triplet(0, 64);
    assert_success(
        dat().ep_post_recv_func(ep.handle, 1, &iov, cookie(1), DAT_COMPLETION_DEFAULT_FLAG));
    DAT_EP_PARAM param = {};
    param.ep_attr.max_recv_dtos = 100;
    assert_int_equal(dat().ep_modify_func(ep.handle, DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS, &param),
                     invalid_state(DAT_INVALID_STATE_EP_NOTREADY));
}

// -- states

void ep_reconnects_after_reset(void **) {
    for (const char *ia_name : {"roce", "iwarp"}) {
        ia_fixture ia(ia_name);
        ep_fixture ep(ia), peer_ep(ia);
        assert_success(dat().ep_reset_func(ep.handle)); // already unconnected
        for (int i = 0; i != 3; ++i) {
            connect(ep, peer_ep);
            assert_int_equal(ep.state(), DAT_EP_STATE_CONNECTED);
            disconnect(ep, peer_ep);
            assert_int_equal(ep.state(), DAT_EP_STATE_DISCONNECTED);
            assert_success(dat().ep_reset_func(ep.handle));
            assert_success(dat().ep_reset_func(peer_ep.handle));
            assert_int_equal(ep.state(), DAT_EP_STATE_UNCONNECTED);
        }
    }
}

/// Posts a Send that does not complete and two receives, then disconnects.
void disconnect_with_outstanding(const connected_eps &eps) {
    get_fabric().hold_work_requests();
    assert_success(eps.post_send(8, cookie(1)));
    assert_success(eps.post_recv(8, cookie(2)));
    assert_success(eps.post_recv(8, cookie(3)));
    disconnect(eps.active, eps.passive);
    assert_success(dat().ep_reset_func(eps.active.handle));
    assert_success(dat().ep_reset_func(eps.passive.handle));
    get_fabric().release_work_requests();
}

void reset_waits_for_flush(void **) {
    for (const char *ia_name : {"roce", "iwarp"}) {
        const connected_eps eps(ia_name);
        // A few, since dat_ep_reset waits at most 20 ms without progress.
        get_fabric().polls_before_flush = 8;
        disconnect_with_outstanding(eps);
        assert_completion(eps.active.request_evd, cookie(1), DAT_DTO_ERR_FLUSHED);
        assert_completion(eps.passive.recv_evd, cookie(2), DAT_DTO_ERR_FLUSHED);
        assert_completion(eps.passive.recv_evd, cookie(3), DAT_DTO_ERR_FLUSHED);
    }
}

void reset_succeeds_without_flush(void **) {
    const connected_eps eps;
    get_fabric().polls_before_flush = std::numeric_limits<int>::max();
    disconnect_with_outstanding(eps);
    get_fabric().polls_before_flush = 0;
    assert_no_event(eps.active.request_evd);
    assert_no_event(eps.passive.recv_evd);
    connect(eps.active, eps.passive);
}

void reset_succeeds_after_unsignaled_request(void **) {
    const connected_eps eps;
    assert_success(eps.post_recv(8, cookie(1)));
    assert_success(eps.post_send(8, cookie(2), DAT_COMPLETION_SUPPRESS_FLAG));
    assert_completion(eps.passive.recv_evd, cookie(1), DAT_DTO_SUCCESS, 8);
    disconnect(eps.active, eps.passive);
    assert_success(dat().ep_reset_func(eps.active.handle));
    assert_success(dat().ep_reset_func(eps.passive.handle));
    assert_no_event(eps.active.request_evd);
    connect(eps.active, eps.passive);
}

void ep_status_counts_outstanding_requests(void **) {
    ia_fixture ia;
    ep_fixture ep(ia), peer_ep(ia);
    connect(ep, peer_ep);
    memory buffer(ia);
    DAT_LMR_TRIPLET iov = buffer.lmr_triplet(0, 64);
    DAT_BOOLEAN receives, requests;
    assert_success(dat().ep_get_status_func(ep.handle, nullptr, &receives, &requests));
    assert_true(receives == DAT_TRUE && requests == DAT_TRUE);
    assert_success(
        dat().ep_post_recv_func(ep.handle, 1, &iov, cookie(1), DAT_COMPLETION_DEFAULT_FLAG));
    get_fabric().hold_work_requests();
    assert_success(
        dat().ep_post_send_func(ep.handle, 1, &iov, cookie(2), DAT_COMPLETION_DEFAULT_FLAG));
    assert_success(dat().ep_get_status_func(ep.handle, nullptr, &receives, &requests));
    assert_true(receives == DAT_FALSE && requests == DAT_FALSE);
    DAT_COUNT allocated, span;
    assert_success(dat().ep_recv_query_func(ep.handle, &allocated, &span));
    assert_int_equal(allocated, 1);
    assert_int_equal(span, 1);
    disconnect(ep, peer_ep);
    const DAT_EVENT sent = wait_event(ep.request_evd, DAT_DTO_COMPLETION_EVENT);
    assert_int_equal(sent.event_data.dto_completion_event_data.status, DAT_DTO_ERR_FLUSHED);
    const DAT_EVENT ep_attr = wait_event(ep.recv_evd, DAT_DTO_COMPLETION_EVENT);
    assert_int_equal(ep_attr.event_data.dto_completion_event_data.status, DAT_DTO_ERR_FLUSHED);
    assert_success(dat().ep_get_status_func(ep.handle, nullptr, &receives, &requests));
    assert_true(receives == DAT_TRUE && requests == DAT_TRUE);
}

void ep_free_disconnects(void **) {
    for (const char *ia_name : {"roce", "iwarp"}) {
        ia_fixture ia(ia_name);
        ep_fixture ep(ia), peer_ep(ia);
        connect(ep, peer_ep);
        ep.free();
        wait_event(peer_ep.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
        assert_int_equal(peer_ep.state(), DAT_EP_STATE_DISCONNECTED);
    }
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        TEST(ep_query_returns_create_arguments),
        TEST(ep_attributes_as_requested),
        TEST(ep_without_queue_needs_no_evd),
        TEST(objects_of_ep_not_freeable),
        TEST(only_connect_evd_may_belong_to_other_ia),
        TEST(only_new_connect_evd_may_belong_to_other_ia),
        TEST(ep_modify_grows_queues),
        TEST(ep_modify_completes_bare_ep),
        TEST(ep_modify_to_same_handles_keeps_refs),
        TEST(ep_modify_drops_old_evd_ref),
        TEST(rejected_ep_modify_changes_nothing),
        TEST(ep_modify_with_posted_receives_rejected),
        TEST(ep_reconnects_after_reset),
        TEST(reset_waits_for_flush),
        TEST(reset_succeeds_without_flush),
        TEST(reset_succeeds_after_unsignaled_request),
        TEST(ep_status_counts_outstanding_requests),
        TEST(ep_free_disconnects),
    };
    return run_cases(tests);
}
