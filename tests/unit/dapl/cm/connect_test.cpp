// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Connecting and disconnecting: the events that each side gets, and the states of the EPs.

#include "fake/two_eps.hpp"

#include <cerrno>
#include <unistd.h>

using namespace fake;

namespace {

/// Two unconnected EPs of one IA, and an EVD for the active EP's requests.
struct conn_fixture {
    explicit conn_fixture(const char *name = "roce")
        : ia(name)
        , active(ia)
        , passive(ia)
        , cr_evd(ia.create_evd(DAT_EVD_CR_FLAG)) {}
    ~conn_fixture() { assert_success(dat().evd_free_func(cr_evd)); }
    DAT_RETURN connect_to(const char *address, std::uint16_t port,
                          DAT_TIMEOUT timeout = event_timeout_us) const {
        socket_address addr = parse_address(address);
        return dat().ep_connect_func(active.handle, &addr.sa, port, timeout, 0, nullptr,
                                     DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG);
    }
    /// The active EP requests a connection with the private data. Returns the CR.
    DAT_CR_HANDLE send_request(const char *data = "") const {
        return fake::request_connection(active, ia, cr_evd, data,
                                        static_cast<DAT_COUNT>(std::strlen(data)));
    }
    /// Accepts with the passive EP.
    void accept(DAT_CR_HANDLE request) const {
        assert_success(dat().cr_accept_func(request, passive.handle, 0, nullptr));
    }
    ia_fixture ia;
    ep_fixture active, passive;
    DAT_EVD_HANDLE cr_evd;
};

constexpr std::uint16_t unused_port = 9999;
constexpr int consumer_reject = 28; ///< reject reason of the IB CM

void *private_data(const char *text) {
    return const_cast<char *>(text);
}

void ep_states_during_connect_and_disconnect(void **) {
    conn_fixture conn;
    const DAT_CR_HANDLE request = conn.send_request();
    assert_int_equal(conn.active.state(), DAT_EP_STATE_ACTIVE_CONNECTION_PENDING);
    assert_int_equal(conn.passive.state(), DAT_EP_STATE_UNCONNECTED);
    get_fabric().hold_cm_events(RDMA_CM_EVENT_CONNECT_RESPONSE);
    conn.accept(request);
    assert_int_equal(conn.passive.state(), DAT_EP_STATE_COMPLETION_PENDING);
    get_fabric().release_cm_events(RDMA_CM_EVENT_CONNECT_RESPONSE);
    wait_event(conn.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    wait_event(conn.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    assert_int_equal(conn.active.state(), DAT_EP_STATE_CONNECTED);
    assert_int_equal(conn.passive.state(), DAT_EP_STATE_CONNECTED);
    get_fabric().hold_cm_events(RDMA_CM_EVENT_DISCONNECTED);
    assert_success(dat().ep_disconnect_func(conn.active.handle, DAT_CLOSE_ABRUPT_FLAG));
    assert_int_equal(conn.active.state(), DAT_EP_STATE_DISCONNECT_PENDING);
    get_fabric().release_cm_events(RDMA_CM_EVENT_DISCONNECTED);
    wait_event(conn.active.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    wait_event(conn.passive.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    assert_success(dat().ep_disconnect_func(conn.active.handle,
                                            DAT_CLOSE_ABRUPT_FLAG)); // already disconnected
    assert_no_event(conn.active.connect_evd);
}

/// The peer disconnects before the passive side has its RDMA_CM_EVENT_ESTABLISHED: its consumer
/// still gets both events, in order.
void disconnect_before_established_keeps_event_order(void **) {
    conn_fixture conn;
    get_fabric().hold_cm_events(RDMA_CM_EVENT_ESTABLISHED);
    conn.accept(conn.send_request());
    wait_event(conn.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    assert_success(dat().ep_disconnect_func(conn.active.handle, DAT_CLOSE_ABRUPT_FLAG));
    wait_event(conn.active.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    wait_event(conn.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    wait_event(conn.passive.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    get_fabric().release_cm_events(RDMA_CM_EVENT_ESTABLISHED);
    assert_no_event(conn.passive.connect_evd);
    assert_int_equal(conn.passive.state(), DAT_EP_STATE_DISCONNECTED);
}

void private_data_exchanged(void **) {
    for (const char *ia_name : {"roce", "iwarp"}) {
        reset_fabric(nullptr);
        conn_fixture conn(ia_name);
        const DAT_CR_HANDLE request = conn.send_request("call");
        DAT_CR_PARAM param = {};
        assert_success(dat().cr_query_func(request, DAT_CR_FIELD_ALL, &param));
        assert_memory_equal(param.private_data, "call", 4);
        assert_true(param.private_data_size >= 4);
        assert_success(
            dat().cr_accept_func(request, conn.passive.handle, 6, private_data("answer")));
        const DAT_EVENT event =
            wait_event(conn.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
        const auto &data = event.event_data.connect_event_data;
        assert_ptr_equal(data.ep_handle, conn.active.handle);
        assert_true(data.private_data_size >= 6);
        assert_memory_equal(data.private_data, "answer", 6);
        wait_event(conn.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    }
}

void reject_carries_private_data(void **) {
    for (const char *ia_name : {"roce", "iwarp"}) {
        reset_fabric(nullptr);
        conn_fixture conn(ia_name);
        assert_success(dat().cr_reject_func(conn.send_request(), 2, private_data("no")));
        const DAT_EVENT event =
            wait_event(conn.active.connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
        const auto &data = event.event_data.connect_event_data;
        assert_memory_equal(data.private_data, "no", 2);
        assert_int_equal(conn.active.state(), DAT_EP_STATE_DISCONNECTED);
    }
}

void connect_without_listener_rejected(void **) {
    for (const char *ia_name : {"roce", "iwarp"}) {
        reset_fabric(nullptr);
        conn_fixture conn(ia_name);
        assert_success(conn.connect_to(conn.ia.address, unused_port));
        wait_event(conn.active.connect_evd, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
        assert_int_equal(conn.active.state(), DAT_EP_STATE_DISCONNECTED);
    }
}

/// rdma_destroy_id has failed for the ids of a PSP: the kernel still listens.
void request_to_listener_that_stays_rejected(void **) {
    constexpr int MANY = 100;
    conn_fixture conn("roce");
    DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
    assert_success(dat().psp_create_func(conn.ia.handle, unused_port, conn.cr_evd,
                                         DAT_PSP_CONSUMER_FLAG, &psp));
    get_fabric().num_failing_destroys = MANY;
    assert_success(dat().psp_free_func(psp));
    get_fabric().num_failing_destroys = 0;
    const std::vector<rdma_cm_id *> listeners = get_fabric().cm_ids();
    assert_false(listeners.empty());
    assert_success(conn.connect_to(conn.ia.address, unused_port));
    wait_event(conn.active.connect_evd, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
    for (rdma_cm_id *const each : listeners)
        assert_int_equal(rdma_destroy_id(each), 0);
}

void connect_times_out(void **) {
    get_fabric().drop_connects = true;
    conn_fixture conn;
    assert_success(conn.connect_to(conn.ia.address, unused_port, 20000));
    wait_event(conn.active.connect_evd, DAT_CONNECTION_EVENT_TIMED_OUT);
    assert_int_equal(conn.active.state(), DAT_EP_STATE_DISCONNECTED);
    assert_success(dat().ep_reset_func(conn.active.handle));
}

// Returns whether the connection was established before the timeout; then no event follows.
bool established_before_timeout(DAT_TIMEOUT timeout) {
    conn_fixture conn;
    DAT_CONN_QUAL port;
    DAT_PSP_HANDLE psp;
    assert_success(
        dat().psp_create_any_func(conn.ia.handle, &port, conn.cr_evd, DAT_PSP_CONSUMER_FLAG, &psp));
    assert_success(conn.connect_to("192.0.2.1", static_cast<std::uint16_t>(port), timeout));
    DAT_EVENT event = {};
    DAT_COUNT nmore = 0;
    if (dat().evd_wait_func(conn.cr_evd, 2 * timeout, 1, &event, &nmore) == DAT_SUCCESS)
        conn.accept(event.event_data.cr_arrival_event_data.cr_handle);
    assert_success(
        dat().evd_wait_func(conn.active.connect_evd, event_timeout_us, 1, &event, &nmore));
    const bool established = event.event_number == DAT_CONNECTION_EVENT_ESTABLISHED;
    if (established) {
        wait_event(conn.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
        usleep(timeout + timeout / 4);
        assert_no_event(conn.active.connect_evd);
        assert_int_equal(conn.active.state(), DAT_EP_STATE_CONNECTED);
    }
    assert_success(dat().psp_free_func(psp));
    return established;
}

void established_connection_cancels_timeout(void **) {
    DAT_TIMEOUT timeout = 100000;
    while (!established_before_timeout(timeout)) { // busy machine: retry
        timeout *= 4;
        assert_in_range(timeout, 1, event_timeout_us);
    }
}

/// A resolution of the address or route that times out is repeated, without an event.
void resolution_retried_after_timeout(void **) {
    conn_fixture conn;
    get_fabric().resolve_addr_results = {-ETIMEDOUT, -ETIMEDOUT};
    get_fabric().resolve_route_results = {-ETIMEDOUT};
    const DAT_CR_HANDLE request = conn.send_request();
    conn.accept(request);
    wait_event(conn.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    wait_event(conn.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
}

/// A resolution that times out is given up after 16 attempts.
void failed_resolution_reported_unreachable(void **) {
    const struct {
        std::deque<int> addresses, routes;
    } cases[] = {
        {{-EHOSTUNREACH}, {}},
        {std::deque<int>(16, -ETIMEDOUT), {}},
        {{}, std::deque<int>(16, -ETIMEDOUT)},
    };
    conn_fixture conn;
    for (const auto &it : cases) {
        get_fabric().resolve_addr_results = it.addresses;
        get_fabric().resolve_route_results = it.routes;
        assert_success(conn.connect_to(conn.ia.address, unused_port));
        wait_event(conn.active.connect_evd, DAT_CONNECTION_EVENT_UNREACHABLE);
        assert_true(get_fabric().resolve_addr_results.empty() &&
                    get_fabric().resolve_route_results.empty());
        assert_success(dat().ep_reset_func(conn.active.handle));
    }
}

void failed_cm_calls_reported_by_event(void **) {
    const struct {
        const char *call;
        int error;
        DAT_UINT32 event;
    } cases[] = {
        {"rdma_resolve_addr", EINVAL, DAT_CONNECTION_EVENT_UNREACHABLE},
        {"rdma_resolve_route", EINVAL, DAT_CONNECTION_EVENT_UNREACHABLE},
        {"rdma_connect", ECONNREFUSED, DAT_CONNECTION_EVENT_NON_PEER_REJECTED},
        {"rdma_connect", EINVAL, DAT_CONNECTION_EVENT_UNREACHABLE},
    };
    conn_fixture conn;
    for (const auto &it : cases) {
        get_fabric().injected.fail(it.call, it.error);
        assert_success(conn.connect_to(conn.ia.address, unused_port)); // reported by an event
        wait_event(conn.active.connect_evd, it.event);
        assert_int_equal(conn.active.state(), DAT_EP_STATE_DISCONNECTED);
        get_fabric().injected.fail_none();
        assert_success(dat().ep_reset_func(conn.active.handle));
    }
}

void connect_without_cm_id_fails_at_once(void **) {
    conn_fixture conn;
    get_fabric().injected.fail("rdma_create_id", EMFILE);
    assert_int_equal(conn.connect_to(conn.ia.address, unused_port),
                     dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_TEP));
    assert_int_equal(conn.active.state(), DAT_EP_STATE_UNCONNECTED);
    assert_no_event(conn.active.connect_evd);
}

/// The active side has the peer's answer, and cannot move its QP to RTS or send the RTU. It tells
/// the peer.
void failed_qp_transition_breaks_connection(void **) {
    for (const char *call_name : {"rdma_init_qp_attr", "ibv_modify_qp", "rdma_establish"}) {
        reset_fabric(nullptr);
        conn_fixture conn;
        const DAT_CR_HANDLE request = conn.send_request();
        get_fabric().hold_cm_events(RDMA_CM_EVENT_CONNECT_RESPONSE);
        conn.accept(request);
        get_fabric().injected.fail(call_name, EINVAL);
        get_fabric().release_cm_events(RDMA_CM_EVENT_CONNECT_RESPONSE);
        wait_event(conn.active.connect_evd, DAT_CONNECTION_EVENT_BROKEN);
        wait_event(conn.passive.connect_evd, DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR);
        get_fabric().injected.fail_none();
    }
}

void failed_accept_reported_by_event(void **) {
    for (const char *call_name : {"rdma_init_qp_attr", "ibv_modify_qp", "rdma_accept"}) {
        reset_fabric(nullptr);
        conn_fixture conn;
        const DAT_CR_HANDLE request = conn.send_request();
        get_fabric().injected.fail(call_name, EINVAL);
        conn.accept(request); // reported by an event
        wait_event(conn.passive.connect_evd, DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR);
        assert_int_equal(conn.passive.state(), DAT_EP_STATE_DISCONNECTED);
        wait_event(conn.active.connect_evd, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
        get_fabric().injected.fail_none();
    }
}

void accept_after_caller_disconnects_fails(void **) {
    conn_fixture conn;
    const DAT_CR_HANDLE request = conn.send_request();
    assert_success(dat().ep_disconnect_func(conn.active.handle, DAT_CLOSE_ABRUPT_FLAG));
    wait_event(conn.active.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    conn.accept(request);
    wait_event(conn.passive.connect_evd, DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR);
}

/// A graceful disconnect sends the DREQ when the requests have completed, however long that takes:
/// also those without a completion, and when the queue is full.
void graceful_disconnect_waits_for_requests(void **) {
    constexpr useconds_t long_us = 100'000;
    constexpr std::uint64_t queue_size = 16; // of an EP with default attributes
    const struct {
        const char *ia_name;
        DAT_COMPLETION_FLAGS flags;
        std::uint64_t num_requests;
    } cases[] = {{"roce", DAT_COMPLETION_DEFAULT_FLAG, 1},
                 {"roce", DAT_COMPLETION_SUPPRESS_FLAG, 1},
                 {"roce", DAT_COMPLETION_SUPPRESS_FLAG, queue_size},
                 {"iwarp", DAT_COMPLETION_DEFAULT_FLAG, queue_size},
                 {"iwarp", DAT_COMPLETION_SUPPRESS_FLAG, 1}};
    for (const auto &it : cases) {
        reset_fabric(nullptr);
        connected_eps eps(it.ia_name);
        get_fabric().hold_work_requests();
        for (std::uint64_t i = 0; i != it.num_requests; ++i) {
            assert_success(eps.post_recv(64, cookie(i)));
            assert_success(eps.post_send(64, cookie(i), it.flags));
        }
        get_fabric().injected.count_calls();
        assert_success(dat().ep_disconnect_func(eps.active.handle, DAT_CLOSE_GRACEFUL_FLAG));
        usleep(long_us);
        assert_int_equal(get_fabric().injected.num_calls("rdma_disconnect"), 0);
        get_fabric().injected.fail_none();
        assert_int_equal(eps.active.state(), DAT_EP_STATE_DISCONNECT_PENDING);
        assert_int_equal(dat().ep_disconnect_func(eps.active.handle, DAT_CLOSE_GRACEFUL_FLAG),
                         invalid_parameter(2)); // already pending
        get_fabric().release_work_requests();
        wait_event(eps.active.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
        for (std::uint64_t i = 0; i != it.num_requests; ++i) {
            if (it.flags == DAT_COMPLETION_DEFAULT_FLAG)
                assert_completion(eps.active.request_evd, cookie(i), DAT_DTO_SUCCESS, 64);
            assert_completion(eps.passive.recv_evd, cookie(i), DAT_DTO_SUCCESS, 64);
        }
        assert_no_event(eps.active.request_evd);
    }
}

/// A request that was posted later is not waited for.
void requests_posted_during_disconnect_fail(void **) {
    connected_eps eps;
    get_fabric().hold_work_requests();
    assert_success(eps.post_recv(64, cookie(1)));
    assert_success(eps.post_send(64, cookie(2)));
    assert_success(dat().ep_disconnect_func(eps.active.handle, DAT_CLOSE_GRACEFUL_FLAG));
    usleep(10'000);                               // until it has looked at the requests
    assert_success(eps.post_send(64, cookie(3))); // the peer has no receive for it
    get_fabric().release_work_requests();
    wait_event(eps.active.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    assert_completion(eps.active.request_evd, cookie(2), DAT_DTO_SUCCESS, 64);
    const DAT_EVENT event = wait_event(eps.active.request_evd, DAT_DTO_COMPLETION_EVENT);
    assert_int_not_equal(event.event_data.dto_completion_event_data.status, DAT_DTO_SUCCESS);
}

/// The device moves the QP of a connected EP to ERR, which a flushed receive or an asynchronous
/// event shows.
void qp_in_error_breaks_connection(void **) {
    for (const ibv_event_type event :
         {IBV_EVENT_COMM_EST, IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR, IBV_EVENT_QP_ACCESS_ERR}) {
        reset_fabric(nullptr);
        connected_eps eps;
        if (event == IBV_EVENT_COMM_EST) {
            assert_success(eps.post_recv(64, cookie(1)));
            get_fabric().fail_qp(qp_of(eps.passive.handle));
            assert_completion(eps.passive.recv_evd, cookie(1), DAT_DTO_ERR_FLUSHED);
        } else {
            get_fabric().queue_async_event(0, event, qp_of(eps.passive.handle));
            wait_event(eps.ia.async_evd, DAT_ASYNC_ERROR_EP_BROKEN);
        }
        wait_event(eps.passive.connect_evd, DAT_CONNECTION_EVENT_BROKEN);
        assert_int_equal(eps.passive.state(), DAT_EP_STATE_DISCONNECTED);
        wait_event(eps.active.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    }
}

/// A peer that is connected may send before the passive side knows that, and its QP may fail by it.
void qp_error_before_established_reported_after_it(void **) {
    conn_fixture conn;
    get_fabric().hold_cm_events(RDMA_CM_EVENT_ESTABLISHED);
    conn.accept(conn.send_request());
    wait_event(conn.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    assert_success(dat().ep_post_recv_func(conn.passive.handle, 0, nullptr, cookie(1),
                                           DAT_COMPLETION_DEFAULT_FLAG));
    get_fabric().fail_qp(qp_of(conn.passive.handle));
    assert_completion(conn.passive.recv_evd, cookie(1), DAT_DTO_ERR_FLUSHED);
    assert_no_event(conn.passive.connect_evd);
    get_fabric().release_cm_events(RDMA_CM_EVENT_ESTABLISHED);
    wait_event(conn.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    wait_event(conn.passive.connect_evd, DAT_CONNECTION_EVENT_BROKEN);
    wait_event(conn.active.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
}

/// What rdma_cm reports of an attempt after it has succeeded, for instance a REJ of the peer whose
/// id was destroyed, ends the connection as such.
void late_failure_of_attempt_breaks_connection(void **) {
    for (const rdma_cm_event_type event :
         {RDMA_CM_EVENT_REJECTED, RDMA_CM_EVENT_UNREACHABLE, RDMA_CM_EVENT_CONNECT_ERROR}) {
        reset_fabric(nullptr);
        connected_eps eps;
        rdma_cm_id *const active_id = get_fabric().cm_ids().front();
        get_fabric().queue_cm_event(active_id, event, consumer_reject);
        wait_event(eps.active.connect_evd, DAT_CONNECTION_EVENT_BROKEN);
        wait_event(eps.passive.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    }
}

void abrupt_disconnect_ends_graceful_one(void **) {
    connected_eps eps;
    get_fabric().hold_work_requests();
    assert_success(eps.post_send(64, cookie(2)));
    assert_success(dat().ep_disconnect_func(eps.active.handle, DAT_CLOSE_GRACEFUL_FLAG));
    assert_success(dat().ep_disconnect_func(eps.active.handle, DAT_CLOSE_ABRUPT_FLAG));
    wait_event(eps.active.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    assert_completion(eps.active.request_evd, cookie(2), DAT_DTO_ERR_FLUSHED);
}

/// The peer sends no DREP.
void disconnect_completes_without_peer_answer(void **) {
    connected_eps eps;
    get_fabric().hold_cm_events(RDMA_CM_EVENT_DISCONNECTED); // the peer's answer is not delivered
    assert_success(dat().ep_disconnect_func(eps.active.handle, DAT_CLOSE_ABRUPT_FLAG));
    wait_event(eps.active.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    assert_int_equal(eps.active.state(), DAT_EP_STATE_DISCONNECTED);
    get_fabric().release_cm_events(RDMA_CM_EVENT_DISCONNECTED);
    wait_event(eps.passive.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
}

/// IBV_EVENT_COMM_EST means that data arrived before the RTU, so that the passive side is
/// connected.
void comm_est_after_established_ignored(void **) {
    conn_fixture conn;
    const DAT_CR_HANDLE request = conn.send_request();
    conn.accept(request);
    wait_event(conn.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    wait_event(conn.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    get_fabric().queue_async_event(0, IBV_EVENT_COMM_EST,
                                   qp_of(conn.passive.handle)); // after the RTU
    assert_no_event(conn.passive.connect_evd);
}

/// No peer answers; the CM event of the error ends the attempt.
void cm_errors_end_connect(void **) {
    const struct {
        rdma_cm_event_type kind;
        DAT_UINT32 event;
    } cases[] = {
        {RDMA_CM_EVENT_UNREACHABLE, DAT_CONNECTION_EVENT_UNREACHABLE},
        {RDMA_CM_EVENT_CONNECT_ERROR, DAT_CONNECTION_EVENT_BROKEN},
        {RDMA_CM_EVENT_DEVICE_REMOVAL, DAT_CONNECTION_EVENT_BROKEN},
        {RDMA_CM_EVENT_REJECTED, DAT_CONNECTION_EVENT_NON_PEER_REJECTED},
    };
    for (const auto &it : cases) {
        reset_fabric(nullptr);
        get_fabric().drop_connects = true;
        conn_fixture conn;
        assert_success(conn.connect_to(conn.ia.address, unused_port));
        assert_true(wait_until([] { return get_fabric().num_unanswered_connects() == 1; }));
        get_fabric().queue_cm_event(get_fabric().cm_ids().front(), it.kind, -1);
        wait_event(conn.active.connect_evd, it.event);
    }
}

void dup_connect_reaches_same_peer(void **) {
    connected_eps eps;
    ep_fixture third_ep(eps.ia), fourth_ep(eps.ia);
    // A PSP listens again on the port of the active EP's peer.
    DAT_EP_PARAM param = {};
    assert_success(dat().ep_query_func(eps.active.handle, DAT_EP_FIELD_ALL, &param));
    DAT_EVD_HANDLE const cr_evd = eps.ia.create_evd(DAT_EVD_CR_FLAG);
    DAT_PSP_HANDLE psp;
    assert_success(dat().psp_create_func(eps.ia.handle, param.remote_port_qual, cr_evd,
                                         DAT_PSP_CONSUMER_FLAG, &psp));
    assert_success(dat().ep_dup_connect_func(third_ep.handle, eps.active.handle, event_timeout_us,
                                             0, nullptr, DAT_QOS_BEST_EFFORT));
    const DAT_EVENT request = wait_event(cr_evd, DAT_CONNECTION_REQUEST_EVENT);
    assert_success(dat().cr_accept_func(request.event_data.cr_arrival_event_data.cr_handle,
                                        fourth_ep.handle, 0, nullptr));
    wait_event(third_ep.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    wait_event(fourth_ep.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    assert_success(dat().psp_free_func(psp));
    third_ep.free();
    fourth_ep.free();
    assert_success(dat().evd_free_func(cr_evd));
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        TEST(ep_states_during_connect_and_disconnect),
        TEST(disconnect_before_established_keeps_event_order),
        TEST(private_data_exchanged),
        TEST(reject_carries_private_data),
        TEST(connect_without_listener_rejected),
        TEST(request_to_listener_that_stays_rejected),
        TEST(connect_times_out),
        TEST(established_connection_cancels_timeout),
        TEST(resolution_retried_after_timeout),
        TEST(failed_resolution_reported_unreachable),
        TEST(failed_cm_calls_reported_by_event),
        TEST(connect_without_cm_id_fails_at_once),
        TEST(failed_qp_transition_breaks_connection),
        TEST(failed_accept_reported_by_event),
        TEST(accept_after_caller_disconnects_fails),
        TEST(graceful_disconnect_waits_for_requests),
        TEST(requests_posted_during_disconnect_fail),
        TEST(qp_in_error_breaks_connection),
        TEST(qp_error_before_established_reported_after_it),
        TEST(late_failure_of_attempt_breaks_connection),
        TEST(abrupt_disconnect_ends_graceful_one),
        TEST(disconnect_completes_without_peer_answer),
        TEST(comm_est_after_established_ignored),
        TEST(cm_errors_end_connect),
        TEST(dup_connect_reaches_same_peer),
    };
    return run_cases(tests);
}
