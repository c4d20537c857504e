// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Public service points: listeners.

#include "cases.hpp"
#include "endpoint.hpp"

namespace conform {

namespace {

struct place {
    adapter ia;
    unique_evd arrivals = ia.events(DAT_EVD_CR_FLAG);

    DAT_RETURN listen(DAT_CONN_QUAL port, unique_psp &made,
                      DAT_PSP_FLAGS flags = DAT_PSP_CONSUMER_FLAG,
                      source_location loc = current_location()) const {
        DAT_PSP_HANDLE handle = nullptr;
        const DAT_RETURN got = dat_psp_create(ia, port, arrivals, flags, &handle);
        if (got == DAT_SUCCESS)
            made = unique_psp(handle, loc);
        return got;
    }
};

void making(case_list &cases) {
    add_case(cases, "psp.create_evd_of_another_stream", [] {
        const place here_is;
        const unique_evd other = here_is.ia.events(DAT_EVD_CONNECTION_FLAG);
        DAT_PSP_HANDLE made = nullptr;
        expect_return(dat_psp_create(here_is.ia, fresh_port(), other, DAT_PSP_CONSUMER_FLAG, &made),
                      invalid_handle(DAT_INVALID_HANDLE_EVD_CR));
        DAT_CONN_QUAL port = 0;
        expect_return(dat_psp_create_any(here_is.ia, &port, other, DAT_PSP_CONSUMER_FLAG, &made),
                      invalid_handle(DAT_INVALID_HANDLE_EVD_CR));
    });
    add_case(cases, "psp.create_flags_unknown", [] {
        const place here_is;
        unique_psp made;
        expect_return(here_is.listen(fresh_port(), made, enum_cast<DAT_PSP_FLAGS>(8)),
                      invalid_parameter(4));
    });
    add_case(cases, "psp.create_null", [] {
        const place here_is;
        expect_return(dat_psp_create(here_is.ia, fresh_port(), here_is.arrivals,
                                     DAT_PSP_CONSUMER_FLAG, nullptr),
                      invalid_parameter(5));
    });
    add_case(cases, "psp.create_in_use", [] {
        const place here_is;
        const DAT_CONN_QUAL port = fresh_port();
        unique_psp first, second;
        require_success(here_is.listen(port, first));
        expect_return(here_is.listen(port, second), dat_error(DAT_CONN_QUAL_IN_USE));
        require_success(first.free());
        expect_return(here_is.listen(port, second), DAT_SUCCESS); // at once
    });
    add_case(cases, "psp.create_in_use_by_another_ia", [] {
        const place here_is, elsewhere;
        const DAT_CONN_QUAL port = fresh_port();
        unique_psp first, second;
        require_success(here_is.listen(port, first));
        expect_return(elsewhere.listen(port, second), dat_error(DAT_CONN_QUAL_IN_USE));
    });
    add_case(cases, "psp.query", [] {
        const place here_is;
        const DAT_CONN_QUAL port = fresh_port();
        unique_psp made;
        require_success(here_is.listen(port, made));
        filled<DAT_PSP_PARAM> is_now;
        require_success(dat_psp_query(made, DAT_PSP_FIELD_ALL, is_now.out()));
        expect_eq(is_now->ia_handle, here_is.ia, "ia_handle");
        expect_eq(is_now->conn_qual, port, "conn_qual");
        expect_eq(is_now->evd_handle, here_is.arrivals, "evd_handle");
        expect_eq(is_now->psp_flags, DAT_PSP_CONSUMER_FLAG, "psp_flags");
    });
    add_case(cases, "psp.query_mask_unknown", [] {
        const place here_is;
        unique_psp made;
        require_success(here_is.listen(fresh_port(), made));
        DAT_PSP_PARAM is_now{};
        expect_return(dat_psp_query(made, enum_cast<DAT_PSP_PARAM_MASK>(0x10), &is_now),
                      invalid_parameter(2));
    });
    add_case(cases, "psp.query_null", [] {
        const place here_is;
        unique_psp made;
        require_success(here_is.listen(fresh_port(), made));
        expect_return(dat_psp_query(made, DAT_PSP_FIELD_ALL, nullptr), invalid_parameter(3));
    });
    add_case(cases, "psp.many", [] {
        const place here_is;
        std::vector<unique_psp> all(30);
        for (unique_psp &one : all)
            require_success(here_is.listen(fresh_port(), one));
    });
}

void any_port(case_list &cases) {
    add_case(cases, "psp.any", [] {
        couple pair;
        DAT_CONN_QUAL first = 0, second = 0;
        DAT_PSP_HANDLE one = nullptr, two = nullptr;
        require_success(
            dat_psp_create_any(pair.ia, &first, pair.arrivals, DAT_PSP_CONSUMER_FLAG, &one));
        const unique_psp own_one(one);
        require_success(
            dat_psp_create_any(pair.ia, &second, pair.arrivals, DAT_PSP_CONSUMER_FLAG, &two));
        const unique_psp own_two(two);
        expect_true(first != 0 && second != 0, "a port is 0");
        expect_true(first != second, "both have the same port");
        DAT_PSP_PARAM is_now{};
        require_success(dat_psp_query(one, DAT_PSP_FIELD_ALL, &is_now));
        expect_eq(is_now.conn_qual, first, "conn_qual");
        require_success(connect(pair.active, destination(pair.ia.address()), second));
        const DAT_EVENT arrived = next_event(pair.arrivals, DAT_CONNECTION_REQUEST_EVENT);
        const auto &request = arrived.event_data.cr_arrival_event_data;
        expect_eq(request.sp_handle.psp_handle, two, "the listener");
        expect_eq(request.conn_qual, second, "its port");
        require_success(dat_cr_reject(request.cr_handle, 0, nullptr));
        next_event(pair.active.connection);
    });
    add_case(cases, "psp.any_null", [] {
        const place here_is;
        DAT_PSP_HANDLE made = nullptr;
        DAT_CONN_QUAL port = 0;
        expect_return(
            dat_psp_create_any(here_is.ia, nullptr, here_is.arrivals, DAT_PSP_CONSUMER_FLAG, &made),
            invalid_parameter(2));
        expect_return(
            dat_psp_create_any(here_is.ia, &port, here_is.arrivals, DAT_PSP_CONSUMER_FLAG, nullptr),
            invalid_parameter(5));
    });
    add_case(cases, "psp.any_flags_unknown", [] {
        const place here_is;
        DAT_PSP_HANDLE made = nullptr;
        DAT_CONN_QUAL port = 0;
        expect_return(dat_psp_create_any(here_is.ia, &port, here_is.arrivals,
                                         enum_cast<DAT_PSP_FLAGS>(8), &made),
                      invalid_parameter(4));
    });
    add_case(cases, "psp.large_qualifier", [] { // beyond the ports of IP
        couple pair;
        constexpr DAT_CONN_QUAL far = 0x123456789abcULL;
        DAT_PSP_HANDLE made = nullptr;
        require_success(dat_psp_create(pair.ia, far, pair.arrivals, DAT_PSP_CONSUMER_FLAG, &made));
        const unique_psp listener(made);
        DAT_PSP_PARAM is_now{};
        require_success(dat_psp_query(made, DAT_PSP_FIELD_ALL, &is_now));
        expect_eq(is_now.conn_qual, far, "conn_qual");
        require_success(connect(pair.active, destination(pair.ia.address()), far));
        const DAT_EVENT arrived = next_event(pair.arrivals, DAT_CONNECTION_REQUEST_EVENT);
        const auto &request = arrived.event_data.cr_arrival_event_data;
        expect_eq(request.conn_qual, far, "the request's conn_qual");
        require_success(dat_cr_accept(request.cr_handle, pair.passive, 0, nullptr));
        next_event(pair.active.connection, DAT_CONNECTION_EVENT_ESTABLISHED);
        next_event(pair.passive.connection, DAT_CONNECTION_EVENT_ESTABLISHED);
    });
}

/// The provider makes the EP, if it says that it does.
void by_provider() {
    couple pair;
    unique_psp made;
    DAT_PSP_HANDLE handle = nullptr;
    const DAT_CONN_QUAL port = fresh_port();
    const DAT_RETURN got =
        dat_psp_create(pair.ia, port, pair.arrivals, DAT_PSP_PROVIDER_FLAG, &handle);
    if (pair.ia.provider().ep_creator == DAT_PSP_CREATES_EP_NEVER) {
        if (got == DAT_SUCCESS)
            dat_psp_free(handle);
        expect_return(got, {not_supported, invalid_parameter(4)});
        return;
    }
    require_success(got);
    made = unique_psp(handle);
    require_success(connect(pair.active, destination(pair.ia.address()), port));
    const DAT_CR_HANDLE request = pair.request();
    DAT_CR_PARAM is_now{};
    require_success(dat_cr_query(request, DAT_CR_FIELD_ALL, &is_now));
    const DAT_EP_HANDLE born = is_now.local_ep_handle;
    require(born != nullptr, "the request has no EP");
    DAT_EP_PARAM wish{};
    require_success(dat_ep_query(born, DAT_EP_FIELD_ALL, &wish));
    expect_true(wish.ep_state == DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING ||
                    wish.ep_state == DAT_EP_STATE_UNCONFIGURED_TENTATIVE,
                "the EP's state is " + to_string(wish.ep_state));
    wish.pz_handle = pair.zone;
    wish.recv_evd_handle = pair.passive.received;
    wish.request_evd_handle = pair.passive.requested;
    wish.connect_evd_handle = pair.passive.connection;
    require_success(dat_ep_modify(born,
                                  DAT_EP_FIELD_PZ_HANDLE | DAT_EP_FIELD_RECV_EVD_HANDLE |
                                      DAT_EP_FIELD_REQUEST_EVD_HANDLE |
                                      DAT_EP_FIELD_CONNECT_EVD_HANDLE,
                                  &wish));
    require_success(dat_cr_accept(request, nullptr, 0, nullptr));
    next_event(pair.active.connection, DAT_CONNECTION_EVENT_ESTABLISHED);
    const DAT_EVENT there = next_event(pair.passive.connection, DAT_CONNECTION_EVENT_ESTABLISHED);
    expect_eq(there.event_data.connect_event_data.ep_handle, born, "the EP that is connected");
    expect_return(dat_ep_free(born), DAT_SUCCESS);
    next_event(pair.active.connection, DAT_CONNECTION_EVENT_DISCONNECTED);
}

void freeing(case_list &cases) {
    add_case(cases, "psp.free_under_connection", [] { // which lives on
        couple pair;
        pair.join();
        require_success(pair.listener.free());
        require_success(
            post_write(pair.active, pair.memory.piece(0, 8), pair.memory.target(page, 8), 1));
        completed(pair.active.requested, pair.active, 1, 8);
        pair.part();
    });
    add_case(cases, "psp.free_under_request", [] { // it can be accepted still
        couple pair;
        require_success(pair.call());
        const DAT_CR_HANDLE request = pair.request();
        require_success(pair.listener.free());
        require_success(dat_cr_accept(request, pair.passive, 0, nullptr));
        next_event(pair.active.connection, DAT_CONNECTION_EVENT_ESTABLISHED);
        next_event(pair.passive.connection, DAT_CONNECTION_EVENT_ESTABLISHED);
    });
    add_case(cases, "psp.free_listens_no_more", [] {
        couple pair;
        require_success(pair.listener.free());
        require_success(pair.call());
        next_event(pair.active.connection, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
        no_event(pair.arrivals);
    });
}

} // namespace

void add_psp(case_list &cases) {
    making(cases);
    any_port(cases);
    add_case(cases, "psp.provider_makes_ep", by_provider);
    freeing(cases);
}

} // namespace conform
