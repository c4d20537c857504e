// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Public service points: listeners.

#include "cases.hpp"
#include "test_ep.hpp"

namespace conform {

namespace {

struct psp_fixture {
    test_ia ia;
    unique_evd arrivals = ia.create_evd(DAT_EVD_CR_FLAG);

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
        const psp_fixture fixture;
        const unique_evd other = fixture.ia.create_evd(DAT_EVD_CONNECTION_FLAG);
        DAT_PSP_HANDLE made = nullptr;
        expect_return(
            dat_psp_create(fixture.ia, unused_port(), other, DAT_PSP_CONSUMER_FLAG, &made),
            invalid_handle(DAT_INVALID_HANDLE_EVD_CR));
        DAT_CONN_QUAL port = 0;
        expect_return(dat_psp_create_any(fixture.ia, &port, other, DAT_PSP_CONSUMER_FLAG, &made),
                      invalid_handle(DAT_INVALID_HANDLE_EVD_CR));
    });
    add_case(cases, "psp.create_flags_unknown", [] {
        const psp_fixture fixture;
        unique_psp made;
        expect_return(fixture.listen(unused_port(), made, enum_cast<DAT_PSP_FLAGS>(8)),
                      invalid_parameter(4));
    });
    add_case(cases, "psp.create_null", [] {
        const psp_fixture fixture;
        expect_return(dat_psp_create(fixture.ia, unused_port(), fixture.arrivals,
                                     DAT_PSP_CONSUMER_FLAG, nullptr),
                      invalid_parameter(5));
    });
    add_case(cases, "psp.create_in_use", [] {
        const psp_fixture fixture;
        const DAT_CONN_QUAL port = unused_port();
        unique_psp first, second;
        require_success(fixture.listen(port, first));
        expect_return(fixture.listen(port, second), dat_error(DAT_CONN_QUAL_IN_USE));
        require_success(first.free());
        expect_return(fixture.listen(port, second), DAT_SUCCESS); // at once
    });
    add_case(cases, "psp.create_in_use_by_another_ia", [] {
        const psp_fixture fixture, other;
        const DAT_CONN_QUAL port = unused_port();
        unique_psp first, second;
        require_success(fixture.listen(port, first));
        expect_return(other.listen(port, second), dat_error(DAT_CONN_QUAL_IN_USE));
    });
    add_case(cases, "psp.query", [] {
        const psp_fixture fixture;
        const DAT_CONN_QUAL port = unused_port();
        unique_psp made;
        require_success(fixture.listen(port, made));
        poisoned<DAT_PSP_PARAM> is_now;
        require_success(dat_psp_query(made, DAT_PSP_FIELD_ALL, is_now.ptr()));
        expect_eq(is_now->ia_handle, fixture.ia, "ia_handle");
        expect_eq(is_now->conn_qual, port, "conn_qual");
        expect_eq(is_now->evd_handle, fixture.arrivals, "evd_handle");
        expect_eq(is_now->psp_flags, DAT_PSP_CONSUMER_FLAG, "psp_flags");
    });
    add_case(cases, "psp.query_mask_unknown", [] {
        const psp_fixture fixture;
        unique_psp made;
        require_success(fixture.listen(unused_port(), made));
        DAT_PSP_PARAM is_now{};
        expect_return(dat_psp_query(made, enum_cast<DAT_PSP_PARAM_MASK>(0x10), &is_now),
                      invalid_parameter(2));
    });
    add_case(cases, "psp.query_null", [] {
        const psp_fixture fixture;
        unique_psp made;
        require_success(fixture.listen(unused_port(), made));
        expect_return(dat_psp_query(made, DAT_PSP_FIELD_ALL, nullptr), invalid_parameter(3));
    });
    add_case(cases, "psp.many", [] {
        const psp_fixture fixture;
        std::vector<unique_psp> all(30);
        for (unique_psp &one : all)
            require_success(fixture.listen(unused_port(), one));
    });
}

void any_port(case_list &cases) {
    add_case(cases, "psp.any", [] {
        ep_pair eps;
        DAT_CONN_QUAL first = 0, second = 0;
        DAT_PSP_HANDLE one = nullptr, two = nullptr;
        require_success(
            dat_psp_create_any(eps.ia, &first, eps.cr_evd, DAT_PSP_CONSUMER_FLAG, &one));
        const unique_psp own_one(one);
        require_success(
            dat_psp_create_any(eps.ia, &second, eps.cr_evd, DAT_PSP_CONSUMER_FLAG, &two));
        const unique_psp own_two(two);
        expect_true(first != 0 && second != 0, "a port is 0");
        expect_true(first != second, "both have the same port");
        DAT_PSP_PARAM is_now{};
        require_success(dat_psp_query(one, DAT_PSP_FIELD_ALL, &is_now));
        expect_eq(is_now.conn_qual, first, "conn_qual");
        require_success(connect_ep(eps.active, ia_address(eps.ia.ipv4_address()), second));
        const DAT_EVENT arrived = next_event(eps.cr_evd, DAT_CONNECTION_REQUEST_EVENT);
        const auto &request = arrived.event_data.cr_arrival_event_data;
        expect_eq(request.sp_handle.psp_handle, two, "the listener");
        expect_eq(request.conn_qual, second, "its port");
        require_success(dat_cr_reject(request.cr_handle, 0, nullptr));
        next_event(eps.active.connect_evd);
    });
    add_case(cases, "psp.any_null", [] {
        const psp_fixture fixture;
        DAT_PSP_HANDLE made = nullptr;
        DAT_CONN_QUAL port = 0;
        expect_return(
            dat_psp_create_any(fixture.ia, nullptr, fixture.arrivals, DAT_PSP_CONSUMER_FLAG, &made),
            invalid_parameter(2));
        expect_return(
            dat_psp_create_any(fixture.ia, &port, fixture.arrivals, DAT_PSP_CONSUMER_FLAG, nullptr),
            invalid_parameter(5));
    });
    add_case(cases, "psp.any_flags_unknown", [] {
        const psp_fixture fixture;
        DAT_PSP_HANDLE made = nullptr;
        DAT_CONN_QUAL port = 0;
        expect_return(dat_psp_create_any(fixture.ia, &port, fixture.arrivals,
                                         enum_cast<DAT_PSP_FLAGS>(8), &made),
                      invalid_parameter(4));
    });
    add_case(cases, "psp.large_qualifier", [] { // beyond the ports of IP
        ep_pair eps;
        constexpr DAT_CONN_QUAL far = 0x123456789abcULL;
        DAT_PSP_HANDLE made = nullptr;
        require_success(dat_psp_create(eps.ia, far, eps.cr_evd, DAT_PSP_CONSUMER_FLAG, &made));
        const unique_psp listener(made);
        DAT_PSP_PARAM is_now{};
        require_success(dat_psp_query(made, DAT_PSP_FIELD_ALL, &is_now));
        expect_eq(is_now.conn_qual, far, "conn_qual");
        require_success(connect_ep(eps.active, ia_address(eps.ia.ipv4_address()), far));
        const DAT_EVENT arrived = next_event(eps.cr_evd, DAT_CONNECTION_REQUEST_EVENT);
        const auto &request = arrived.event_data.cr_arrival_event_data;
        expect_eq(request.conn_qual, far, "the request's conn_qual");
        require_success(dat_cr_accept(request.cr_handle, eps.passive, 0, nullptr));
        next_event(eps.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
        next_event(eps.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    });
}

/// The provider makes the EP, if it says that it does.
void by_provider() {
    ep_pair eps;
    unique_psp made;
    DAT_PSP_HANDLE handle = nullptr;
    const DAT_CONN_QUAL port = unused_port();
    const DAT_RETURN got = dat_psp_create(eps.ia, port, eps.cr_evd, DAT_PSP_PROVIDER_FLAG, &handle);
    if (eps.ia.provider_attr().ep_creator == DAT_PSP_CREATES_EP_NEVER) {
        if (got == DAT_SUCCESS)
            dat_psp_free(handle);
        expect_return(got, {not_supported, invalid_parameter(4)});
        return;
    }
    require_success(got);
    made = unique_psp(handle);
    require_success(connect_ep(eps.active, ia_address(eps.ia.ipv4_address()), port));
    const DAT_CR_HANDLE request = eps.next_cr();
    DAT_CR_PARAM is_now{};
    require_success(dat_cr_query(request, DAT_CR_FIELD_ALL, &is_now));
    const DAT_EP_HANDLE born = is_now.local_ep_handle;
    require(born != nullptr, "the request has no EP");
    DAT_EP_PARAM wish{};
    require_success(dat_ep_query(born, DAT_EP_FIELD_ALL, &wish));
    expect_true(wish.ep_state == DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING ||
                    wish.ep_state == DAT_EP_STATE_UNCONFIGURED_TENTATIVE,
                "the EP's state is " + to_string(wish.ep_state));
    wish.pz_handle = eps.pz;
    wish.recv_evd_handle = eps.passive.recv_evd;
    wish.request_evd_handle = eps.passive.request_evd;
    wish.connect_evd_handle = eps.passive.connect_evd;
    require_success(dat_ep_modify(born,
                                  DAT_EP_FIELD_PZ_HANDLE | DAT_EP_FIELD_RECV_EVD_HANDLE |
                                      DAT_EP_FIELD_REQUEST_EVD_HANDLE |
                                      DAT_EP_FIELD_CONNECT_EVD_HANDLE,
                                  &wish));
    require_success(dat_cr_accept(request, nullptr, 0, nullptr));
    next_event(eps.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    const DAT_EVENT there = next_event(eps.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    expect_eq(there.event_data.connect_event_data.ep_handle, born, "the EP that is connected");
    expect_return(dat_ep_free(born), DAT_SUCCESS);
    next_event(eps.active.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
}

void freeing(case_list &cases) {
    add_case(cases, "psp.free_under_connection", [] { // which lives on
        ep_pair eps;
        eps.connect();
        require_success(eps.psp.free());
        require_success(post_rdma_write(eps.active, eps.lmr.lmr_triplet(0, 8),
                                        eps.lmr.rmr_triplet(page, 8), 1));
        expect_completion(eps.active.request_evd, eps.active, 1, 8);
        eps.disconnect();
    });
    add_case(cases, "psp.free_under_request", [] { // it can be accepted still
        ep_pair eps;
        require_success(eps.request_connection());
        const DAT_CR_HANDLE request = eps.next_cr();
        require_success(eps.psp.free());
        require_success(dat_cr_accept(request, eps.passive, 0, nullptr));
        next_event(eps.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
        next_event(eps.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    });
    add_case(cases, "psp.free_listens_no_more", [] {
        ep_pair eps;
        require_success(eps.psp.free());
        require_success(eps.request_connection());
        next_event(eps.active.connect_evd, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
        expect_no_event(eps.cr_evd);
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
