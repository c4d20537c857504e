// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Reserved service points: one endpoint that waits for one request.

#include "lib/cases.hpp"
#include "lib/test_ep.hpp"

namespace conform {

namespace {

/// `passive` is reserved for `reserved`, another port than the listener's.
struct rsp_fixture {
    ep_pair eps;
    DAT_CONN_QUAL reserved_port = unused_port();
    unique_rsp rsp = create_rsp();

    unique_rsp create_rsp() {
        DAT_RSP_HANDLE handle = nullptr;
        require_success(dat_rsp_create(eps.ia, reserved_port, eps.passive, eps.cr_evd, &handle));
        return unique_rsp(handle);
    }
    /// It is called; the event's fields are returned.
    DAT_CR_ARRIVAL_EVENT_DATA request_connection() {
        require_success(connect_ep(eps.active, ia_address(eps.ia.ipv4_address()), reserved_port));
        return next_event(eps.cr_evd, DAT_CONNECTION_REQUEST_EVENT)
            .event_data.cr_arrival_event_data;
    }
};

void add_create_cases(case_list &cases) {
    add_case(cases, "rsp.create_null", [] {
        ep_pair eps;
        expect_return(dat_rsp_create(eps.ia, unused_port(), eps.passive, eps.cr_evd, nullptr),
                      invalid_parameter(5));
        eps.passive.expect_state(DAT_EP_STATE_UNCONNECTED);
    });
    add_case(cases, "rsp.create_evd_of_another_stream", [] {
        ep_pair eps;
        const unique_evd other_evd = eps.ia.create_evd(DAT_EVD_SOFTWARE_FLAG);
        DAT_RSP_HANDLE handle = nullptr;
        expect_return(dat_rsp_create(eps.ia, unused_port(), eps.passive, other_evd, &handle),
                      invalid_handle(DAT_INVALID_HANDLE_EVD_CR));
        eps.passive.expect_state(DAT_EP_STATE_UNCONNECTED);
    });
    add_case(cases, "rsp.create_in_use", [] {
        ep_pair eps;
        DAT_RSP_HANDLE handle = nullptr;
        expect_return(dat_rsp_create(eps.ia, eps.port, eps.passive, eps.cr_evd, &handle),
                      dat_error(DAT_CONN_QUAL_IN_USE));
        eps.passive.expect_state(DAT_EP_STATE_UNCONNECTED);
    });
    add_case(cases, "rsp.create_ep_connected", [] {
        ep_pair eps;
        eps.connect();
        DAT_RSP_HANDLE handle = nullptr;
        expect_return(dat_rsp_create(eps.ia, unused_port(), eps.passive, eps.cr_evd, &handle),
                      invalid_state(DAT_INVALID_STATE_EP_CONNECTED));
    });
    add_case(cases, "rsp.create_ep_reserved", [] {
        rsp_fixture fixture;
        DAT_RSP_HANDLE handle = nullptr;
        expect_return(dat_rsp_create(fixture.eps.ia, unused_port(), fixture.eps.passive,
                                     fixture.eps.cr_evd, &handle),
                      invalid_state(DAT_INVALID_STATE_EP_RESERVED));
    });
    add_case(cases, "rsp.query", [] {
        const rsp_fixture fixture;
        poisoned<DAT_RSP_PARAM> param;
        require_success(dat_rsp_query(fixture.rsp, DAT_RSP_FIELD_ALL, param.ptr()));
        expect_eq(param->ia_handle, fixture.eps.ia, "ia_handle");
        expect_eq(param->conn_qual, fixture.reserved_port, "conn_qual");
        expect_eq(param->evd_handle, fixture.eps.cr_evd, "evd_handle");
        expect_eq(param->ep_handle, fixture.eps.passive, "ep_handle");
    });
    add_case(cases, "rsp.query_mask_unknown", [] {
        const rsp_fixture fixture;
        DAT_RSP_PARAM param{};
        expect_return(dat_rsp_query(fixture.rsp, enum_cast<DAT_RSP_PARAM_MASK>(0x10), &param),
                      invalid_parameter(2));
    });
    add_case(cases, "rsp.query_null", [] {
        const rsp_fixture fixture;
        expect_return(dat_rsp_query(fixture.rsp, DAT_RSP_FIELD_ALL, nullptr), invalid_parameter(3));
    });
}

void add_state_cases(case_list &cases) {
    add_case(cases, "rsp.ep_reserved", [] { // and free again
        rsp_fixture fixture;
        fixture.eps.passive.expect_state(DAT_EP_STATE_RESERVED);
        expect_return(fixture.rsp.free(), DAT_SUCCESS);
        fixture.eps.passive.expect_state(DAT_EP_STATE_UNCONNECTED);
        fixture.eps.connect(); // by the listener
    });
    add_case(cases, "rsp.ep_may_do_nothing_else", [] {
        const rsp_fixture fixture;
        const DAT_EP_HANDLE passive = fixture.eps.passive;
        constexpr DAT_RETURN reserved = invalid_state(DAT_INVALID_STATE_EP_RESERVED);
        expect_return(dat_ep_free(passive), reserved);
        expect_return(dat_ep_disconnect(passive, DAT_CLOSE_ABRUPT_FLAG), reserved);
        expect_return(dat_ep_reset(passive), reserved);
        expect_return(
            connect_ep(passive, ia_address(fixture.eps.ia.ipv4_address()), fixture.eps.port),
            reserved);
        fixture.eps.passive.expect_state(DAT_EP_STATE_RESERVED);
    });
    add_case(cases, "rsp.request", [] {
        rsp_fixture fixture;
        const auto arrival = fixture.request_connection();
        // The header says NULL; dapltest and all implementations say the RSP.
        expect_eq(arrival.sp_handle.rsp_handle, fixture.rsp, "sp_handle");
        expect_eq(arrival.conn_qual, fixture.reserved_port, "conn_qual");
        fixture.eps.passive.expect_state(DAT_EP_STATE_PASSIVE_CONNECTION_PENDING);
        DAT_CR_PARAM param{};
        require_success(dat_cr_query(arrival.cr_handle, DAT_CR_FIELD_ALL, &param));
        expect_eq(param.local_ep_handle, fixture.eps.passive, "local_ep_handle");
        require_success(dat_cr_reject(arrival.cr_handle, 0, nullptr));
        next_event(fixture.eps.active.connect_evd);
    });
    add_case(cases, "rsp.accept", [] {
        rsp_fixture fixture;
        ep_pair &eps = fixture.eps;
        require_success(post_recv(eps.passive, eps.lmr.make_lmr_triplet(page_size, 8), 1));
        const auto arrival = fixture.request_connection();
        require_success(dat_cr_accept(arrival.cr_handle, nullptr, 0, nullptr));
        next_event(eps.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
        next_event(eps.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
        eps.passive.expect_state(DAT_EP_STATE_CONNECTED);
        require_success(fixture.rsp.free());
        require_success(post_send(eps.active, eps.lmr.make_lmr_triplet(0, 8), 2));
        expect_completion(eps.passive.recv_evd, eps.passive, 1, 8);
        eps.disconnect();
    });
    add_case(cases, "rsp.accept_another_ep", [] { // than the one that waits
        rsp_fixture fixture;
        const test_ep other_ep(fixture.eps.ia, fixture.eps.pz);
        const auto arrival = fixture.request_connection();
        expect_return(dat_cr_accept(arrival.cr_handle, other_ep, 0, nullptr),
                      invalid_handle(DAT_INVALID_HANDLE_EP));
        require_success(dat_cr_accept(arrival.cr_handle, nullptr, 0, nullptr));
        next_event(fixture.eps.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    });
    add_case(cases, "rsp.only_one_request", [] {
        rsp_fixture fixture;
        const auto arrival = fixture.request_connection();
        const test_ep second_ep(fixture.eps.ia, fixture.eps.pz);
        require_success(connect_ep(second_ep, ia_address(fixture.eps.ia.ipv4_address()),
                                   fixture.reserved_port));
        next_event(second_ep.connect_evd, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
        expect_no_event(fixture.eps.cr_evd);
        require_success(dat_cr_accept(arrival.cr_handle, nullptr, 0, nullptr));
        next_event(fixture.eps.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    });
    add_case(cases, "rsp.reject", [] {
        rsp_fixture fixture;
        const auto arrival = fixture.request_connection();
        require_success(dat_cr_reject(arrival.cr_handle, 0, nullptr));
        next_event(fixture.eps.active.connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
        require_success(fixture.rsp.free());
        const DAT_EP_STATE state = fixture.eps.passive.get_state();
        expect_true(state == DAT_EP_STATE_UNCONNECTED || state == DAT_EP_STATE_DISCONNECTED,
                    "the EP's state is " + to_string(state));
    });
}

} // namespace

void add_rsp(case_list &cases) {
    add_create_cases(cases);
    add_state_cases(cases);
}

} // namespace conform
