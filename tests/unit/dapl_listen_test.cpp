// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// PSPs, RSPs, CSPs and the requests that come to them.

#include "two.hpp"

#include <cerrno>

using namespace played;

namespace {

/// A caller, and an EVD for what he asks.
struct world {
    explicit world(const char *name = "ib")
        : on(name)
        , caller(on)
        , requests(on.evd(DAT_EVD_CR_FLAG, 2)) {}
    void free() {
        caller.free();
        done(dat().evd_free_func(requests));
        close(on);
    }
    void call(DAT_CONN_QUAL port) const { call(caller, port); }
    void call(const end &by, DAT_CONN_QUAL port) const {
        place to = at(on.address);
        done(dat().ep_connect_func(by.ep, &to.any, port, DAT_TIMEOUT_INFINITE, 0, nullptr,
                                   DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
    }
    DAT_CR_ARRIVAL_EVENT_DATA asked() const {
        return next(requests, DAT_CONNECTION_REQUEST_EVENT).event_data.cr_arrival_event_data;
    }
    DAT_PSP_HANDLE psp(DAT_CONN_QUAL port, DAT_PSP_FLAGS flags = DAT_PSP_CONSUMER_FLAG) const {
        DAT_PSP_HANDLE made;
        done(dat().psp_create_func(on.ia, port, requests, flags, &made));
        return made;
    }
    adapter on;
    end caller;
    DAT_EVD_HANDLE requests;
};

DAT_CR_PARAM ask_all(DAT_CR_HANDLE request) {
    DAT_CR_PARAM param = {};
    done(dat().cr_query_func(request, DAT_CR_FIELD_ALL, &param));
    return param;
}

void a_request_tells_where_and_who(void **) {
    world with;
    DAT_PSP_HANDLE const psp = with.psp(4000);
    with.call(4000);
    const auto asked = with.asked();
    assert_ptr_equal(asked.sp_handle.psp_handle, psp);
    assert_int_equal(asked.conn_qual, 4000);
    const auto &local = reinterpret_cast<const sockaddr_in &>(*asked.local_ia_address_ptr);
    assert_int_equal(local.sin_addr.s_addr, inet_addr("192.0.2.1"));
    const DAT_CR_PARAM is = ask_all(asked.cr_handle);
    const auto &remote = reinterpret_cast<const sockaddr_in &>(*is.remote_ia_address_ptr);
    assert_int_equal(remote.sin_addr.s_addr, inet_addr("192.0.2.1"));
    assert_int_equal(is.remote_port_qual, ntohs(remote.sin_port));
    assert_null(is.local_ep_handle);
    done(dat().cr_reject_func(asked.cr_handle, 0, nullptr));
    next(with.caller.connections, DAT_CONNECTION_EVENT_PEER_REJECTED);
    done(dat().psp_free_func(psp));
    with.free();
}

void a_psp_tells_what_it_is(void **) {
    world with;
    DAT_PSP_HANDLE const psp = with.psp(4000, DAT_PSP_PROVIDER_FLAG);
    DAT_PSP_PARAM is = {};
    done(dat().psp_query_func(psp, DAT_PSP_FIELD_ALL, &is));
    assert_ptr_equal(is.ia_handle, reinterpret_cast<DAT_IA_HANDLE>(1));
    assert_int_equal(is.conn_qual, 4000);
    assert_ptr_equal(is.evd_handle, with.requests);
    assert_int_equal(is.psp_flags, DAT_PSP_PROVIDER_FLAG);
    assert_int_equal(dat().evd_free_func(with.requests), wrong_state(DAT_INVALID_STATE_EVD_IN_USE));
    done(dat().psp_free_func(psp));
    with.free();
}

void any_psp_tells_its_port(void **) {
    world with;
    DAT_CONN_QUAL port = 0;
    DAT_PSP_HANDLE psp;
    done(dat().psp_create_any_func(with.on.ia, &port, with.requests, DAT_PSP_CONSUMER_FLAG, &psp));
    assert_true(port > 0 && port < 65536);
    DAT_PSP_PARAM is = {};
    done(dat().psp_query_func(psp, DAT_PSP_FIELD_ALL, &is));
    assert_int_equal(is.conn_qual, port);
    done(dat().psp_free_func(psp));
    with.free();
}

void a_request_outlives_its_psp(void **) {
    world with;
    end called(with.on);
    DAT_PSP_HANDLE const psp = with.psp(4000);
    with.call(4000);
    const auto asked = with.asked();
    done(dat().psp_free_func(psp));
    done(dat().cr_accept_func(asked.cr_handle, called.ep, 0, nullptr));
    next(with.caller.connections, DAT_CONNECTION_EVENT_ESTABLISHED);
    next(called.connections, DAT_CONNECTION_EVENT_ESTABLISHED);
    called.free();
    with.free();
}

void what_nobody_heard_is_refused(void **) {
    world with;
    DAT_PSP_HANDLE const psp = with.psp(4000);
    net().hold(RDMA_CM_EVENT_CONNECT_REQUEST);
    with.call(4000);
    assert_true(eventually([&] {
        const entered call;
        return !net().withheld.empty();
    }));
    done(dat().psp_free_func(psp));
    next(with.caller.connections, DAT_CONNECTION_EVENT_PEER_REJECTED);
    with.free();
}

void without_room_for_it_a_request_is_refused(void **) {
    world with;
    DAT_PSP_HANDLE const psp = with.psp(4000);
    end second(with.on), third(with.on);
    with.call(4000);
    with.call(second, 4000);
    assert_true(eventually([&] {
        DAT_EVENT event;
        DAT_COUNT more = 0;
        dat().evd_wait_func(with.requests, 0, 2, &event, &more);
        return more != 0; // both are there, and one was taken
    }));
    with.call(third, 4000); // there is room for it
    next(with.requests, DAT_CONNECTION_REQUEST_EVENT);
    with.asked();
    net().hold(RDMA_CM_EVENT_CONNECT_REQUEST);
    end more[3] = {end(with.on), end(with.on), end(with.on)};
    for (const end &each : more)
        with.call(each, 4000);
    net().let(RDMA_CM_EVENT_CONNECT_REQUEST);
    next(more[2].connections, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
    next(with.on.async, DAT_ASYNC_ERROR_EVD_OVERFLOW);
    done(dat().psp_free_func(psp));
    with.on.close();
}

void an_endpoint_is_made_for_it(void **) {
    world with;
    DAT_PSP_HANDLE const psp = with.psp(4000, DAT_PSP_PROVIDER_FLAG);
    with.call(4000);
    DAT_CR_HANDLE const request = with.asked().cr_handle;
    end called(with.on); // has what the one that was made lacks
    DAT_EP_HANDLE const made = ask_all(request).local_ep_handle;
    DAT_EP_STATE state;
    done(dat().ep_get_status_func(made, &state, nullptr, nullptr));
    assert_int_equal(state, DAT_EP_STATE_UNCONFIGURED_TENTATIVE);
    assert_int_equal(dat().ep_free_func(made), wrong_state(DAT_INVALID_STATE_EP_UNCONFTENTATIVE));
    assert_int_equal(dat().cr_accept_func(request, called.ep, 0, nullptr),
                     no_handle(DAT_INVALID_HANDLE_EP)); // not the one that it has
    DAT_EP_PARAM param = {};
    param.pz_handle = with.on.pz;
    param.recv_evd_handle = called.receives;
    param.request_evd_handle = called.requests;
    param.connect_evd_handle = called.connections;
    done(dat().ep_modify_func(made,
                              DAT_EP_FIELD_PZ_HANDLE | DAT_EP_FIELD_RECV_EVD_HANDLE |
                                  DAT_EP_FIELD_REQUEST_EVD_HANDLE | DAT_EP_FIELD_CONNECT_EVD_HANDLE,
                              &param));
    done(dat().ep_get_status_func(made, &state, nullptr, nullptr));
    assert_int_equal(state, DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING);
    done(dat().cr_accept_func(request, DAT_HANDLE_NULL, 0, nullptr));
    next(with.caller.connections, DAT_CONNECTION_EVENT_ESTABLISHED);
    assert_ptr_equal(next(called.connections, DAT_CONNECTION_EVENT_ESTABLISHED)
                         .event_data.connect_event_data.ep_handle,
                     made);
    done(dat().ep_free_func(made));
    called.free();
    done(dat().psp_free_func(psp));
    with.free();
}

void an_endpoint_made_for_nothing_goes(void **) {
    world with;
    DAT_PSP_HANDLE const psp = with.psp(4000, DAT_PSP_PROVIDER_FLAG);
    with.call(4000);
    DAT_CR_HANDLE const request = with.asked().cr_handle;
    DAT_EP_HANDLE const made = ask_all(request).local_ep_handle;
    done(dat().cr_reject_func(request, 0, nullptr));
    next(with.caller.connections, DAT_CONNECTION_EVENT_PEER_REJECTED);
    assert_int_equal(dat().ep_free_func(made), no_handle(DAT_INVALID_HANDLE_EP));
    done(dat().psp_free_func(psp));
    with.free();
}

// -- RSPs

void an_rsp_has_its_endpoint_for_one(void **) {
    world with;
    end called(with.on), late(with.on);
    DAT_RSP_HANDLE rsp;
    done(dat().rsp_create_func(with.on.ia, 4000, called.ep, with.requests, &rsp));
    DAT_RSP_PARAM is = {};
    done(dat().rsp_query_func(rsp, DAT_RSP_FIELD_ALL, &is));
    assert_ptr_equal(is.ep_handle, called.ep);
    assert_int_equal(is.conn_qual, 4000);
    assert_int_equal(called.state(), DAT_EP_STATE_RESERVED);
    with.call(4000);
    const auto asked = with.asked();
    assert_int_equal(called.state(), DAT_EP_STATE_PASSIVE_CONNECTION_PENDING);
    assert_ptr_equal(ask_all(asked.cr_handle).local_ep_handle, called.ep);
    assert_int_equal(dat().ep_free_func(called.ep),
                     wrong_state(DAT_INVALID_STATE_EP_PASSCONNPENDING));
    assert_int_equal(dat().ep_disconnect_func(called.ep, DAT_CLOSE_ABRUPT_FLAG),
                     wrong_state(DAT_INVALID_STATE_EP_PASSCONNPENDING));
    with.call(late, 4000);
    next(late.connections, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
    done(dat().cr_accept_func(asked.cr_handle, called.ep, 0, nullptr));
    next(with.caller.connections, DAT_CONNECTION_EVENT_ESTABLISHED);
    next(called.connections, DAT_CONNECTION_EVENT_ESTABLISHED);
    done(dat().rsp_free_func(rsp));
    assert_int_equal(called.state(), DAT_EP_STATE_CONNECTED);
    called.free();
    late.free();
    with.free();
}

void an_rsp_that_goes_gives_it_back(void **) {
    world with;
    end called(with.on);
    DAT_RSP_HANDLE rsp;
    done(dat().rsp_create_func(with.on.ia, 4000, called.ep, with.requests, &rsp));
    done(dat().rsp_free_func(rsp));
    assert_int_equal(called.state(), DAT_EP_STATE_UNCONNECTED);
    done(dat().rsp_create_func(with.on.ia, 4000, called.ep, with.requests, &rsp));
    with.call(4000);
    done(dat().cr_reject_func(with.asked().cr_handle, 0, nullptr));
    next(with.caller.connections, DAT_CONNECTION_EVENT_PEER_REJECTED);
    assert_int_equal(called.state(), DAT_EP_STATE_UNCONNECTED);
    done(dat().rsp_free_func(rsp));
    called.free();
    with.free();
}

// -- CSPs

void a_csp_listens_at_an_address(void **) {
    world with;
    DAT_COMM comm = {AF_INET, SOCK_STREAM, 0};
    place here = at("192.0.2.1", 4000);
    DAT_CSP_HANDLE csp;
    done(dat().csp_create_func(with.on.ia, &comm, &here.any, with.requests, &csp));
    DAT_CSP_PARAM is = {};
    done(dat().csp_query_func(csp, DAT_CSP_FIELD_ALL, &is));
    assert_ptr_equal(is.evd_handle, with.requests);
    assert_int_equal(reinterpret_cast<const sockaddr_in *>(is.address_ptr)->sin_port, htons(4000));
    assert_int_equal(is.comm->type, SOCK_STREAM);
    done(dat().ep_common_connect_func(with.caller.ep, &here.any, soon, 0, nullptr));
    done(dat().cr_reject_func(with.asked().cr_handle, 0, nullptr));
    next(with.caller.connections, DAT_CONNECTION_EVENT_PEER_REJECTED);
    done(dat().csp_free_func(csp));
    with.free();
}

// -- handing on

void a_request_goes_to_another_psp(void **) {
    world with;
    end called(with.on);
    DAT_EVD_HANDLE const others = with.on.evd(DAT_EVD_CR_FLAG);
    DAT_PSP_HANDLE const psp = with.psp(4000);
    DAT_PSP_HANDLE other;
    done(dat().psp_create_func(with.on.ia, 4001, others, DAT_PSP_CONSUMER_FLAG, &other));
    with.call(4000);
    DAT_CR_HANDLE const request = with.asked().cr_handle;
    done(dat().cr_handoff_func(request, 4001));
    assert_int_equal(dat().cr_reject_func(request, 0, nullptr), no_handle(DAT_INVALID_HANDLE_CR));
    const DAT_EVENT event = next(others, DAT_CONNECTION_REQUEST_EVENT);
    const auto &asked = event.event_data.cr_arrival_event_data;
    assert_ptr_equal(asked.sp_handle.psp_handle, other);
    assert_int_equal(asked.conn_qual, 4001);
    done(dat().cr_accept_func(asked.cr_handle, called.ep, 0, nullptr));
    next(with.caller.connections, DAT_CONNECTION_EVENT_ESTABLISHED);
    next(called.connections, DAT_CONNECTION_EVENT_ESTABLISHED);
    done(dat().psp_free_func(psp));
    done(dat().psp_free_func(other));
    done(dat().evd_free_func(others));
    called.free();
    with.free();
}

void without_room_there_it_stays(void **) {
    world with;
    DAT_EVD_HANDLE const others = with.on.evd(DAT_EVD_CR_FLAG | DAT_EVD_SOFTWARE_FLAG, 1);
    DAT_EVENT full = {};
    full.event_number = DAT_SOFTWARE_EVENT;
    done(dat().evd_post_se_func(others, &full));
    DAT_PSP_HANDLE const psp = with.psp(4000);
    DAT_PSP_HANDLE other;
    done(dat().psp_create_func(with.on.ia, 4001, others, DAT_PSP_CONSUMER_FLAG, &other));
    with.call(4000);
    DAT_CR_HANDLE const request = with.asked().cr_handle;
    assert_int_equal(dat().cr_handoff_func(request, 4001), error(DAT_QUEUE_FULL));
    done(dat().cr_reject_func(request, 0, nullptr)); // it is still there
    next(with.caller.connections, DAT_CONNECTION_EVENT_PEER_REJECTED);
    done(dat().psp_free_func(psp));
    done(dat().psp_free_func(other));
    done(dat().evd_free_func(others));
    with.free();
}

void each_error_of_listening_has_its_word(void **) {
    const struct {
        const char *call;
        int said;
        DAT_RETURN expected;
    } all[] = {
        {"rdma_listen", EADDRINUSE, error(DAT_CONN_QUAL_IN_USE)},
        {"rdma_bind_addr", EADDRNOTAVAIL, error(DAT_CONN_QUAL_UNAVAILABLE)},
        {"rdma_bind_addr", EACCES, error(DAT_PRIVILEGES_VIOLATION)},
        {"rdma_create_id", EMFILE, error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_TEP)},
    };
    world with;
    end called(with.on);
    for (const auto &each : all) {
        DAT_HANDLE made = &made;
        net().wrong.fail(each.call, each.said);
        assert_int_equal(
            dat().psp_create_func(with.on.ia, 80, with.requests, DAT_PSP_CONSUMER_FLAG, &made),
            each.expected);
        net().wrong.fail(each.call, each.said);
        assert_int_equal(dat().rsp_create_func(with.on.ia, 80, called.ep, with.requests, &made),
                         each.expected);
        assert_int_equal(called.state(), DAT_EP_STATE_UNCONNECTED);
        assert_ptr_equal(made, &made);
        net().wrong.stop();
    }
    called.free();
    with.free(); // Nothing counts as used.
}

} // namespace

#define TEST(name) cmocka_unit_test_setup_teardown(name, fresh, gone)

int main() {
    register_names();
    const CMUnitTest tests[] = {
        TEST(a_request_tells_where_and_who),   TEST(a_psp_tells_what_it_is),
        TEST(any_psp_tells_its_port),          TEST(a_request_outlives_its_psp),
        TEST(what_nobody_heard_is_refused),    TEST(without_room_for_it_a_request_is_refused),
        TEST(an_endpoint_is_made_for_it),      TEST(an_endpoint_made_for_nothing_goes),
        TEST(an_rsp_has_its_endpoint_for_one), TEST(an_rsp_that_goes_gives_it_back),
        TEST(a_csp_listens_at_an_address),     TEST(a_request_goes_to_another_psp),
        TEST(without_room_there_it_stays),     TEST(each_error_of_listening_has_its_word),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
