// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// PSPs, RSPs and CSPs, and their connection requests.

#include "dapl/ep/ep.hpp"
#include "fake/thread_state.hpp"
#include "fake/two_eps.hpp"

#include <atomic>
#include <cerrno>
#include <new>

using namespace fake;

namespace {

/// The nth allocation of the library from now on fails; 0: none.
std::atomic<int> failing_allocation = 0;

} // namespace

void *operator new(std::size_t size, const std::nothrow_t &) noexcept {
    if (failing_allocation > 0 && failing_allocation.fetch_sub(1) == 1)
        return nullptr;
    try {
        return ::operator new(size);
    } catch (const std::bad_alloc &) {
        return nullptr;
    }
}

namespace {

constexpr std::uint16_t port = 4000, other_port = 4001; ///< of service points

/// An EP that connects, and an EVD that holds two connection requests.
struct sp_fixture {
    explicit sp_fixture(const char *name = "roce")
        : ia(name)
        , active(ia)
        , cr_evd(ia.create_evd(DAT_EVD_CR_FLAG, 2)) {}
    ~sp_fixture() {
        if (ia.handle != DAT_HANDLE_NULL)
            assert_success(dat().evd_free_func(cr_evd));
    }
    void connect_to(DAT_CONN_QUAL conn_qual) const { connect_to(active, conn_qual); }
    void connect_to(const ep_fixture &ep, DAT_CONN_QUAL conn_qual) const {
        socket_address addr = parse_address(ia.address);
        assert_success(dat().ep_connect_func(ep.handle, &addr.sa, conn_qual, DAT_TIMEOUT_INFINITE,
                                             0, nullptr, DAT_QOS_BEST_EFFORT,
                                             DAT_CONNECT_DEFAULT_FLAG));
    }
    DAT_CR_ARRIVAL_EVENT_DATA wait_request() const {
        return wait_event(cr_evd, DAT_CONNECTION_REQUEST_EVENT).event_data.cr_arrival_event_data;
    }
    DAT_PSP_HANDLE create_psp(DAT_CONN_QUAL conn_qual,
                              DAT_PSP_FLAGS flags = DAT_PSP_CONSUMER_FLAG) const {
        DAT_PSP_HANDLE handle;
        assert_success(dat().psp_create_func(ia.handle, conn_qual, cr_evd, flags, &handle));
        return handle;
    }
    ia_fixture ia;
    ep_fixture active;
    DAT_EVD_HANDLE cr_evd;
};

DAT_CR_PARAM query_cr(DAT_CR_HANDLE cr) {
    DAT_CR_PARAM param = {};
    assert_success(dat().cr_query_func(cr, DAT_CR_FIELD_ALL, &param));
    return param;
}

void cr_names_listener_and_peer(void **) {
    sp_fixture fixture;
    DAT_PSP_HANDLE const psp = fixture.create_psp(port);
    fixture.connect_to(port);
    const auto arrival = fixture.wait_request();
    assert_ptr_equal(arrival.sp_handle.psp_handle, psp);
    assert_int_equal(arrival.conn_qual, port);
    const auto &local = reinterpret_cast<const sockaddr_in &>(*arrival.local_ia_address_ptr);
    assert_int_equal(local.sin_addr.s_addr, inet_addr(fixture.ia.address));
    const DAT_CR_PARAM param = query_cr(arrival.cr_handle);
    const auto &remote = reinterpret_cast<const sockaddr_in &>(*param.remote_ia_address_ptr);
    assert_int_equal(remote.sin_addr.s_addr, inet_addr(fixture.ia.address));
    assert_int_equal(param.remote_port_qual, ntohs(remote.sin_port));
    assert_null(param.local_ep_handle);
    assert_success(dat().cr_reject_func(arrival.cr_handle, 0, nullptr));
    wait_event(fixture.active.connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
    assert_success(dat().psp_free_func(psp));
}

void psp_query_returns_create_arguments(void **) {
    sp_fixture fixture;
    DAT_PSP_HANDLE const psp = fixture.create_psp(port, DAT_PSP_PROVIDER_FLAG);
    DAT_PSP_PARAM param = {};
    assert_success(dat().psp_query_func(psp, DAT_PSP_FIELD_ALL, &param));
    assert_ptr_equal(param.ia_handle, first_registry_ia);
    assert_int_equal(param.conn_qual, port);
    assert_ptr_equal(param.evd_handle, fixture.cr_evd);
    assert_int_equal(param.psp_flags, DAT_PSP_PROVIDER_FLAG);
    assert_int_equal(dat().evd_free_func(fixture.cr_evd),
                     invalid_state(DAT_INVALID_STATE_EVD_IN_USE));
    assert_success(dat().psp_free_func(psp));
}

void psp_create_any_returns_its_port(void **) {
    sp_fixture fixture;
    DAT_CONN_QUAL any_port = 0;
    DAT_PSP_HANDLE psp;
    assert_success(dat().psp_create_any_func(fixture.ia.handle, &any_port, fixture.cr_evd,
                                             DAT_PSP_CONSUMER_FLAG, &psp));
    assert_true(any_port > 0 && any_port < 65536);
    DAT_PSP_PARAM param = {};
    assert_success(dat().psp_query_func(psp, DAT_PSP_FIELD_ALL, &param));
    assert_int_equal(param.conn_qual, any_port);
    assert_success(dat().psp_free_func(psp));
}

void cr_outlives_freed_psp(void **) {
    sp_fixture fixture;
    ep_fixture passive(fixture.ia);
    DAT_PSP_HANDLE const psp = fixture.create_psp(port);
    fixture.connect_to(port);
    const auto arrival = fixture.wait_request();
    assert_success(dat().psp_free_func(psp));
    assert_success(dat().cr_accept_func(arrival.cr_handle, passive.handle, 0, nullptr));
    wait_event(fixture.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    wait_event(passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
}

/// The CM event of the request is not delivered before the PSP is freed.
void unread_cr_rejected_with_psp(void **) {
    sp_fixture fixture;
    DAT_PSP_HANDLE const psp = fixture.create_psp(port);
    get_fabric().hold_cm_events(RDMA_CM_EVENT_CONNECT_REQUEST);
    fixture.connect_to(port);
    assert_true(wait_until([&] {
        const library_call_guard call;
        return !get_fabric().held_events.empty();
    }));
    assert_success(dat().psp_free_func(psp));
    wait_event(fixture.active.connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
}

/// The consumer frees the EVD with an event of a request that it has not dequeued.
void unread_cr_rejected_with_evd(void **) {
    sp_fixture fixture;
    ep_fixture reserved(fixture.ia);
    DAT_EVD_HANDLE const evd = fixture.ia.create_evd(DAT_EVD_CR_FLAG, 2);
    DAT_RSP_HANDLE rsp;
    assert_success(dat().rsp_create_func(fixture.ia.handle, port, reserved.handle, evd, &rsp));
    fixture.connect_to(port);
    assert_true(wait_until([&] { // the request has the EP
        DAT_EP_STATE state{};
        assert_success(dat().ep_get_status_func(reserved.handle, &state, nullptr, nullptr));
        return state == DAT_EP_STATE_PASSIVE_CONNECTION_PENDING;
    }));
    assert_success(dat().rsp_free_func(rsp)); // waits until the request is in the EVD
    assert_success(dat().evd_free_func(evd));
    wait_event(fixture.active.connect_evd, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
    // ~ep_fixture frees the EP, which would be in use.
}

/// The EVD holds two requests: of three that arrive together, the last is rejected, and the
/// overflow is reported to the asynchronous EVD.
void cr_rejected_when_evd_full(void **) {
    sp_fixture fixture;
    DAT_PSP_HANDLE const psp = fixture.create_psp(port);
    ep_fixture second(fixture.ia), third(fixture.ia);
    fixture.connect_to(port);
    fixture.connect_to(second, port);
    assert_true(wait_until([&] {
        DAT_EVENT event;
        DAT_COUNT nmore = 0;
        dat().evd_wait_func(fixture.cr_evd, 0, 2, &event, &nmore);
        return nmore != 0; // both are queued, and one is returned
    }));
    fixture.connect_to(third, port); // the EVD has room again
    wait_event(fixture.cr_evd, DAT_CONNECTION_REQUEST_EVENT);
    fixture.wait_request();
    get_fabric().hold_cm_events(RDMA_CM_EVENT_CONNECT_REQUEST);
    ep_fixture callers[3] = {ep_fixture(fixture.ia), ep_fixture(fixture.ia),
                             ep_fixture(fixture.ia)};
    for (const ep_fixture &ep : callers)
        fixture.connect_to(ep, port);
    get_fabric().release_cm_events(RDMA_CM_EVENT_CONNECT_REQUEST);
    wait_event(callers[2].connect_evd, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
    wait_event(fixture.ia.async_evd, DAT_ASYNC_ERROR_EVD_OVERFLOW);
    assert_success(dat().psp_free_func(psp));
    fixture.ia.close();
}

/// DAT_PSP_PROVIDER_FLAG: the Provider creates an EP for each request, which has neither PZ nor
/// EVDs until the consumer modifies it.
void provider_psp_creates_ep(void **) {
    sp_fixture fixture;
    DAT_PSP_HANDLE const psp = fixture.create_psp(port, DAT_PSP_PROVIDER_FLAG);
    fixture.connect_to(port);
    DAT_CR_HANDLE const cr = fixture.wait_request().cr_handle;
    ep_fixture passive(fixture.ia); // provides the EVDs of the created EP
    DAT_EP_HANDLE const handle = query_cr(cr).local_ep_handle;
    DAT_EP_STATE state;
    assert_success(dat().ep_get_status_func(handle, &state, nullptr, nullptr));
    assert_int_equal(state, DAT_EP_STATE_UNCONFIGURED_TENTATIVE);
    assert_int_equal(dat().ep_free_func(handle),
                     invalid_state(DAT_INVALID_STATE_EP_UNCONFTENTATIVE));
    assert_int_equal(dat().cr_accept_func(cr, passive.handle, 0, nullptr),
                     invalid_handle(DAT_INVALID_HANDLE_EP)); // not the EP of the request
    DAT_EP_PARAM param = {};
    param.pz_handle = fixture.ia.pz;
    param.recv_evd_handle = passive.recv_evd;
    param.request_evd_handle = passive.request_evd;
    param.connect_evd_handle = passive.connect_evd;
    assert_success(dat().ep_modify_func(handle,
                                        DAT_EP_FIELD_PZ_HANDLE | DAT_EP_FIELD_RECV_EVD_HANDLE |
                                            DAT_EP_FIELD_REQUEST_EVD_HANDLE |
                                            DAT_EP_FIELD_CONNECT_EVD_HANDLE,
                                        &param));
    assert_success(dat().ep_get_status_func(handle, &state, nullptr, nullptr));
    assert_int_equal(state, DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING);
    assert_success(dat().cr_accept_func(cr, DAT_HANDLE_NULL, 0, nullptr));
    wait_event(fixture.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    assert_ptr_equal(wait_event(passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED)
                         .event_data.connect_event_data.ep_handle,
                     handle);
    assert_success(dat().ep_free_func(handle));
    passive.free();
    assert_success(dat().psp_free_func(psp));
}

/// The EP that the Provider created for a request is freed when the request is rejected.
void unused_provider_ep_freed(void **) {
    sp_fixture fixture;
    DAT_PSP_HANDLE const psp = fixture.create_psp(port, DAT_PSP_PROVIDER_FLAG);
    fixture.connect_to(port);
    DAT_CR_HANDLE const cr = fixture.wait_request().cr_handle;
    DAT_EP_HANDLE const handle = query_cr(cr).local_ep_handle;
    assert_success(dat().cr_reject_func(cr, 0, nullptr));
    wait_event(fixture.active.connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
    assert_int_equal(dat().ep_free_func(handle), invalid_handle(DAT_INVALID_HANDLE_EP));
    assert_success(dat().psp_free_func(psp));
}

// -- RSPs

/// The rejected request frees its EP while a dat_rsp_create with the same EP waits for the lock.
void cr_reject_frees_provider_ep_beside_rsp_create(void **) {
    sp_fixture fixture;
    DAT_PSP_HANDLE const psp = fixture.create_psp(port, DAT_PSP_PROVIDER_FLAG);
    fixture.connect_to(port);
    const auto arrival = fixture.wait_request();
    DAT_EP_HANDLE const ep = query_cr(arrival.cr_handle).local_ep_handle;
    auto &setup_lock = static_cast<coherdma::dapl::dapl_ep *>(ep)->setup_lock;
    setup_lock.lock();
    DAT_RETURN rsp_result = DAT_SUCCESS, reject_result = DAT_SUCCESS;
    named_thread create_rsp([&] {
        DAT_RSP_HANDLE rsp;
        rsp_result = dat().rsp_create_func(fixture.ia.handle, other_port, ep, fixture.cr_evd, &rsp);
    });
    assert_true(wait_until([&] { return create_rsp.is_asleep(); })); // for the lock
    std::atomic<bool> returned = false;
    named_thread reject([&] {
        reject_result = dat().cr_reject_func(arrival.cr_handle, 0, nullptr);
        returned = true;
    });
    assert_true(wait_until([&] { return returned || reject.is_asleep(); }));
    setup_lock.unlock();
    create_rsp.join();
    reject.join();
    assert_int_equal(DAT_GET_TYPE(rsp_result), DAT_INVALID_STATE);
    assert_success(reject_result);
    assert_int_equal(dat().ep_free_func(ep), invalid_handle(DAT_INVALID_HANDLE_EP));
    wait_event(fixture.active.connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
    assert_success(dat().psp_free_func(psp));
}

/// While a request has the RSP's EP, others are rejected.
void rsp_accepts_one_request(void **) {
    sp_fixture fixture;
    ep_fixture passive(fixture.ia), rejected_ep(fixture.ia);
    DAT_RSP_HANDLE rsp;
    assert_success(
        dat().rsp_create_func(fixture.ia.handle, port, passive.handle, fixture.cr_evd, &rsp));
    DAT_RSP_PARAM param = {};
    assert_success(dat().rsp_query_func(rsp, DAT_RSP_FIELD_ALL, &param));
    assert_ptr_equal(param.ep_handle, passive.handle);
    assert_int_equal(param.conn_qual, port);
    assert_int_equal(passive.state(), DAT_EP_STATE_RESERVED);
    fixture.connect_to(port);
    const auto arrival = fixture.wait_request();
    assert_int_equal(passive.state(), DAT_EP_STATE_PASSIVE_CONNECTION_PENDING);
    assert_ptr_equal(query_cr(arrival.cr_handle).local_ep_handle, passive.handle);
    assert_int_equal(dat().ep_free_func(passive.handle),
                     invalid_state(DAT_INVALID_STATE_EP_PASSCONNPENDING));
    assert_int_equal(dat().ep_disconnect_func(passive.handle, DAT_CLOSE_ABRUPT_FLAG),
                     invalid_state(DAT_INVALID_STATE_EP_PASSCONNPENDING));
    fixture.connect_to(rejected_ep, port);
    wait_event(rejected_ep.connect_evd, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
    assert_success(dat().cr_accept_func(arrival.cr_handle, passive.handle, 0, nullptr));
    wait_event(fixture.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    wait_event(passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    assert_success(dat().rsp_free_func(rsp));
    assert_int_equal(passive.state(), DAT_EP_STATE_CONNECTED);
}

void rsp_free_unreserves_ep(void **) {
    sp_fixture fixture;
    ep_fixture passive(fixture.ia);
    DAT_RSP_HANDLE rsp;
    assert_success(
        dat().rsp_create_func(fixture.ia.handle, port, passive.handle, fixture.cr_evd, &rsp));
    assert_success(dat().rsp_free_func(rsp));
    assert_int_equal(passive.state(), DAT_EP_STATE_UNCONNECTED);
    assert_success(
        dat().rsp_create_func(fixture.ia.handle, port, passive.handle, fixture.cr_evd, &rsp));
    fixture.connect_to(port);
    assert_success(dat().cr_reject_func(fixture.wait_request().cr_handle, 0, nullptr));
    wait_event(fixture.active.connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
    assert_int_equal(passive.state(), DAT_EP_STATE_UNCONNECTED);
    assert_success(dat().rsp_free_func(rsp));
}

// -- CSPs

void connect_without_memory_refused(void **) {
    sp_fixture fixture;
    socket_address addr = parse_address(fixture.ia.address);
    failing_allocation = 1;
    assert_int_equal(dat().ep_connect_func(fixture.active.handle, &addr.sa, port,
                                           DAT_TIMEOUT_INFINITE, 0, nullptr, DAT_QOS_BEST_EFFORT,
                                           DAT_CONNECT_DEFAULT_FLAG),
                     dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY));
    assert_int_equal(fixture.active.state(), DAT_EP_STATE_UNCONNECTED);
}

/// Connects; the passive side cannot allocate a connection.
void expect_request_rejected(const sp_fixture &fixture, DAT_CONN_QUAL conn_qual) {
    failing_allocation = 2; // the first is that of the active side
    fixture.connect_to(conn_qual);
    wait_event(fixture.active.connect_evd, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
    assert_success(dat().ep_reset_func(fixture.active.handle));
}

void request_without_memory_rejected_by_psp(void **) {
    sp_fixture fixture;
    for (const DAT_PSP_FLAGS flags : {DAT_PSP_CONSUMER_FLAG, DAT_PSP_PROVIDER_FLAG}) {
        DAT_PSP_HANDLE const psp = fixture.create_psp(port, flags);
        expect_request_rejected(fixture, port);
        assert_success(dat().psp_free_func(psp));
    }
}

/// A request that fails for lack of memory is rejected; the RSP accepts the next one.
void request_without_memory_leaves_rsp_its_ep(void **) {
    sp_fixture fixture;
    ep_fixture passive(fixture.ia);
    DAT_RSP_HANDLE rsp;
    assert_success(
        dat().rsp_create_func(fixture.ia.handle, port, passive.handle, fixture.cr_evd, &rsp));
    expect_request_rejected(fixture, port);
    fixture.connect_to(port);
    const auto arrival = fixture.wait_request();
    assert_ptr_equal(query_cr(arrival.cr_handle).local_ep_handle, passive.handle);
    assert_success(dat().cr_accept_func(arrival.cr_handle, DAT_HANDLE_NULL, 0, nullptr));
    wait_event(passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    assert_success(dat().rsp_free_func(rsp));
}

void csp_listens_at_its_address(void **) {
    sp_fixture fixture;
    DAT_COMM comm = {AF_INET, SOCK_STREAM, 0};
    socket_address addr = parse_address(fixture.ia.address, port);
    DAT_CSP_HANDLE csp;
    assert_success(dat().csp_create_func(fixture.ia.handle, &comm, &addr.sa, fixture.cr_evd, &csp));
    DAT_CSP_PARAM param = {};
    assert_success(dat().csp_query_func(csp, DAT_CSP_FIELD_ALL, &param));
    assert_ptr_equal(param.evd_handle, fixture.cr_evd);
    assert_int_equal(reinterpret_cast<const sockaddr_in *>(param.address_ptr)->sin_port,
                     htons(port));
    assert_int_equal(param.comm->type, SOCK_STREAM);
    assert_success(dat().ep_common_connect_func(fixture.active.handle, &addr.sa, event_timeout_us,
                                                0, nullptr));
    assert_success(dat().cr_reject_func(fixture.wait_request().cr_handle, 0, nullptr));
    wait_event(fixture.active.connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
    assert_success(dat().csp_free_func(csp));
}

// -- handoff

/// The request of the first PSP becomes an event of the other, with a new CR handle.
void cr_handoff_moves_request(void **) {
    sp_fixture fixture;
    ep_fixture passive(fixture.ia);
    DAT_EVD_HANDLE const other_evd = fixture.ia.create_evd(DAT_EVD_CR_FLAG);
    DAT_PSP_HANDLE const psp = fixture.create_psp(port);
    DAT_PSP_HANDLE other_psp;
    assert_success(dat().psp_create_func(fixture.ia.handle, other_port, other_evd,
                                         DAT_PSP_CONSUMER_FLAG, &other_psp));
    fixture.connect_to(port);
    DAT_CR_HANDLE const cr = fixture.wait_request().cr_handle;
    assert_success(dat().cr_handoff_func(cr, other_port));
    assert_int_equal(dat().cr_reject_func(cr, 0, nullptr), invalid_handle(DAT_INVALID_HANDLE_CR));
    const DAT_EVENT event = wait_event(other_evd, DAT_CONNECTION_REQUEST_EVENT);
    const auto &arrival = event.event_data.cr_arrival_event_data;
    assert_ptr_equal(arrival.sp_handle.psp_handle, other_psp);
    assert_int_equal(arrival.conn_qual, other_port);
    assert_success(dat().cr_accept_func(arrival.cr_handle, passive.handle, 0, nullptr));
    wait_event(fixture.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    wait_event(passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    assert_success(dat().psp_free_func(psp));
    assert_success(dat().psp_free_func(other_psp));
    assert_success(dat().evd_free_func(other_evd));
}

void cr_handoff_to_full_evd_rejected(void **) {
    sp_fixture fixture;
    DAT_EVD_HANDLE const other_evd =
        fixture.ia.create_evd(DAT_EVD_CR_FLAG | DAT_EVD_SOFTWARE_FLAG, 1);
    DAT_EVENT full = {};
    full.event_number = DAT_SOFTWARE_EVENT;
    assert_success(dat().evd_post_se_func(other_evd, &full));
    DAT_PSP_HANDLE const psp = fixture.create_psp(port);
    DAT_PSP_HANDLE other_psp;
    assert_success(dat().psp_create_func(fixture.ia.handle, other_port, other_evd,
                                         DAT_PSP_CONSUMER_FLAG, &other_psp));
    fixture.connect_to(port);
    DAT_CR_HANDLE const cr = fixture.wait_request().cr_handle;
    assert_int_equal(dat().cr_handoff_func(cr, other_port), dat_error(DAT_QUEUE_FULL));
    assert_success(dat().cr_reject_func(cr, 0, nullptr)); // the request is kept
    wait_event(fixture.active.connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
    assert_success(dat().psp_free_func(psp));
    assert_success(dat().psp_free_func(other_psp));
    assert_success(dat().evd_free_func(other_evd));
}

void listen_errors_translated(void **) {
    constexpr unsigned num_addresses = 2; // which are bound first, to find their device
    const struct {
        const char *call;
        unsigned nth;
        int error;
        DAT_RETURN expected;
    } cases[] = {
        {"rdma_listen", 1, EADDRINUSE, dat_error(DAT_CONN_QUAL_IN_USE)},
        {"rdma_bind_addr", 1 + num_addresses, EACCES, dat_error(DAT_PRIVILEGES_VIOLATION)},
        {"rdma_create_id", 1, EMFILE, dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_TEP)},
    };
    sp_fixture fixture;
    ep_fixture passive(fixture.ia);
    for (const auto &it : cases) {
        DAT_HANDLE handle = &handle;
        get_fabric().injected.fail(it.call, it.error, it.nth);
        assert_int_equal(dat().psp_create_func(fixture.ia.handle, 80, fixture.cr_evd,
                                               DAT_PSP_CONSUMER_FLAG, &handle),
                         it.expected);
        get_fabric().injected.fail(it.call, it.error, it.nth);
        assert_int_equal(
            dat().rsp_create_func(fixture.ia.handle, 80, passive.handle, fixture.cr_evd, &handle),
            it.expected);
        assert_int_equal(passive.state(), DAT_EP_STATE_UNCONNECTED);
        assert_ptr_equal(handle, &handle);
        get_fabric().injected.fail_none();
    }
    passive.free(); // no reference is left
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        TEST(cr_names_listener_and_peer),
        TEST(psp_query_returns_create_arguments),
        TEST(psp_create_any_returns_its_port),
        TEST(cr_outlives_freed_psp),
        TEST(unread_cr_rejected_with_psp),
        TEST(unread_cr_rejected_with_evd),
        TEST(cr_rejected_when_evd_full),
        TEST(provider_psp_creates_ep),
        TEST(unused_provider_ep_freed),
        TEST(cr_reject_frees_provider_ep_beside_rsp_create),
        TEST(rsp_accepts_one_request),
        TEST(rsp_free_unreserves_ep),
        TEST(connect_without_memory_refused),
        TEST(request_without_memory_rejected_by_psp),
        TEST(request_without_memory_leaves_rsp_its_ep),
        TEST(csp_listens_at_its_address),
        TEST(cr_handoff_moves_request),
        TEST(cr_handoff_to_full_evd_rejected),
        TEST(listen_errors_translated),
    };
    return run_cases(tests);
}
