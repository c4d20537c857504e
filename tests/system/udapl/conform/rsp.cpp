// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Reserved service points: one endpoint that waits for one request.

#include "cases.hpp"
#include "endpoint.hpp"

namespace conform {

namespace {

/// `passive` is reserved for `reserved`, another port than the listener's.
struct place {
    couple pair;
    DAT_CONN_QUAL reserved = fresh_port();
    unique_rsp point = make();

    unique_rsp make() {
        DAT_RSP_HANDLE made = nullptr;
        require_success(dat_rsp_create(pair.ia, reserved, pair.passive, pair.arrivals, &made));
        return unique_rsp(made);
    }
    /// It is called; the event's fields are returned.
    DAT_CR_ARRIVAL_EVENT_DATA called() {
        require_success(connect(pair.active, destination(pair.ia.address()), reserved));
        return next_event(pair.arrivals, DAT_CONNECTION_REQUEST_EVENT)
            .event_data.cr_arrival_event_data;
    }
};

void making(case_list &cases) {
    add_case(cases, "rsp.create_null", [] {
        couple pair;
        expect_return(dat_rsp_create(pair.ia, fresh_port(), pair.passive, pair.arrivals, nullptr),
                      invalid_parameter(5));
        pair.passive.is_in(DAT_EP_STATE_UNCONNECTED);
    });
    add_case(cases, "rsp.create_evd_of_another_stream", [] {
        couple pair;
        const unique_evd other = pair.ia.events(DAT_EVD_SOFTWARE_FLAG);
        DAT_RSP_HANDLE made = nullptr;
        expect_return(dat_rsp_create(pair.ia, fresh_port(), pair.passive, other, &made),
                      invalid_handle(DAT_INVALID_HANDLE_EVD_CR));
        pair.passive.is_in(DAT_EP_STATE_UNCONNECTED);
    });
    add_case(cases, "rsp.create_in_use", [] {
        couple pair;
        DAT_RSP_HANDLE made = nullptr;
        expect_return(dat_rsp_create(pair.ia, pair.port, pair.passive, pair.arrivals, &made),
                      dat_error(DAT_CONN_QUAL_IN_USE));
        pair.passive.is_in(DAT_EP_STATE_UNCONNECTED);
    });
    add_case(cases, "rsp.create_ep_connected", [] {
        couple pair;
        pair.join();
        DAT_RSP_HANDLE made = nullptr;
        expect_return(dat_rsp_create(pair.ia, fresh_port(), pair.passive, pair.arrivals, &made),
                      invalid_state(DAT_INVALID_STATE_EP_CONNECTED));
    });
    add_case(cases, "rsp.create_ep_reserved", [] {
        place here_is;
        DAT_RSP_HANDLE made = nullptr;
        expect_return(dat_rsp_create(here_is.pair.ia, fresh_port(), here_is.pair.passive,
                                     here_is.pair.arrivals, &made),
                      invalid_state(DAT_INVALID_STATE_EP_RESERVED));
    });
    add_case(cases, "rsp.query", [] {
        const place here_is;
        filled<DAT_RSP_PARAM> is_now;
        require_success(dat_rsp_query(here_is.point, DAT_RSP_FIELD_ALL, is_now.out()));
        expect_eq(is_now->ia_handle, here_is.pair.ia, "ia_handle");
        expect_eq(is_now->conn_qual, here_is.reserved, "conn_qual");
        expect_eq(is_now->evd_handle, here_is.pair.arrivals, "evd_handle");
        expect_eq(is_now->ep_handle, here_is.pair.passive, "ep_handle");
    });
    add_case(cases, "rsp.query_mask_unknown", [] {
        const place here_is;
        DAT_RSP_PARAM is_now{};
        expect_return(dat_rsp_query(here_is.point, enum_cast<DAT_RSP_PARAM_MASK>(0x10), &is_now),
                      invalid_parameter(2));
    });
    add_case(cases, "rsp.query_null", [] {
        const place here_is;
        expect_return(dat_rsp_query(here_is.point, DAT_RSP_FIELD_ALL, nullptr),
                      invalid_parameter(3));
    });
}

void states(case_list &cases) {
    add_case(cases, "rsp.ep_reserved", [] { // and free again
        place here_is;
        here_is.pair.passive.is_in(DAT_EP_STATE_RESERVED);
        expect_return(here_is.point.free(), DAT_SUCCESS);
        here_is.pair.passive.is_in(DAT_EP_STATE_UNCONNECTED);
        here_is.pair.join(); // by the listener
    });
    add_case(cases, "rsp.ep_may_do_nothing_else", [] {
        const place here_is;
        const DAT_EP_HANDLE passive = here_is.pair.passive;
        constexpr DAT_RETURN reserved = invalid_state(DAT_INVALID_STATE_EP_RESERVED);
        expect_return(dat_ep_free(passive), reserved);
        expect_return(dat_ep_disconnect(passive, DAT_CLOSE_ABRUPT_FLAG), reserved);
        expect_return(dat_ep_reset(passive), reserved);
        expect_return(connect(passive, destination(here_is.pair.ia.address()), here_is.pair.port),
                      reserved);
        here_is.pair.passive.is_in(DAT_EP_STATE_RESERVED);
    });
    add_case(cases, "rsp.request", [] {
        place here_is;
        const auto request = here_is.called();
        // The header says NULL; dapltest and all implementations say the RSP.
        expect_eq(request.sp_handle.rsp_handle, here_is.point, "sp_handle");
        expect_eq(request.conn_qual, here_is.reserved, "conn_qual");
        here_is.pair.passive.is_in(DAT_EP_STATE_PASSIVE_CONNECTION_PENDING);
        DAT_CR_PARAM is_now{};
        require_success(dat_cr_query(request.cr_handle, DAT_CR_FIELD_ALL, &is_now));
        expect_eq(is_now.local_ep_handle, here_is.pair.passive, "local_ep_handle");
        require_success(dat_cr_reject(request.cr_handle, 0, nullptr));
        next_event(here_is.pair.active.connection);
    });
    add_case(cases, "rsp.accept", [] {
        place here_is;
        couple &pair = here_is.pair;
        require_success(post_receive(pair.passive, pair.memory.piece(page, 8), 1));
        const auto request = here_is.called();
        require_success(dat_cr_accept(request.cr_handle, nullptr, 0, nullptr));
        next_event(pair.active.connection, DAT_CONNECTION_EVENT_ESTABLISHED);
        next_event(pair.passive.connection, DAT_CONNECTION_EVENT_ESTABLISHED);
        pair.passive.is_in(DAT_EP_STATE_CONNECTED);
        require_success(here_is.point.free());
        require_success(post_send(pair.active, pair.memory.piece(0, 8), 2));
        completed(pair.passive.received, pair.passive, 1, 8);
        pair.part();
    });
    add_case(cases, "rsp.accept_another_ep", [] { // than the one that waits
        place here_is;
        const endpoint other(here_is.pair.ia, here_is.pair.zone);
        const auto request = here_is.called();
        expect_return(dat_cr_accept(request.cr_handle, other, 0, nullptr),
                      invalid_handle(DAT_INVALID_HANDLE_EP));
        require_success(dat_cr_accept(request.cr_handle, nullptr, 0, nullptr));
        next_event(here_is.pair.active.connection, DAT_CONNECTION_EVENT_ESTABLISHED);
    });
    add_case(cases, "rsp.only_one_request", [] {
        place here_is;
        const auto request = here_is.called();
        const endpoint second(here_is.pair.ia, here_is.pair.zone);
        require_success(connect(second, destination(here_is.pair.ia.address()), here_is.reserved));
        next_event(second.connection, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
        no_event(here_is.pair.arrivals);
        require_success(dat_cr_accept(request.cr_handle, nullptr, 0, nullptr));
        next_event(here_is.pair.active.connection, DAT_CONNECTION_EVENT_ESTABLISHED);
    });
    add_case(cases, "rsp.reject", [] {
        place here_is;
        const auto request = here_is.called();
        require_success(dat_cr_reject(request.cr_handle, 0, nullptr));
        next_event(here_is.pair.active.connection, DAT_CONNECTION_EVENT_PEER_REJECTED);
        require_success(here_is.point.free());
        const DAT_EP_STATE is_now = here_is.pair.passive.state();
        expect_true(is_now == DAT_EP_STATE_UNCONNECTED || is_now == DAT_EP_STATE_DISCONNECTED,
                    "the EP's state is " + to_string(is_now));
    });
}

} // namespace

void add_rsp(case_list &cases) {
    making(cases);
    states(cases);
}

} // namespace conform
