// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Public service points: listeners.

#include "lib/cases.hpp"
#include "lib/test_ep.hpp"

namespace conform {

namespace {

struct psp_fixture {
    test_ia ia;
    unique_evd cr_evd = ia.create_evd(DAT_EVD_CR_FLAG);

    DAT_RETURN create_psp(DAT_CONN_QUAL port, unique_psp &psp,
                          DAT_PSP_FLAGS flags = DAT_PSP_CONSUMER_FLAG,
                          source_location loc = current_location()) const {
        DAT_PSP_HANDLE handle = nullptr;
        const DAT_RETURN ret = dat_psp_create(ia, port, cr_evd, flags, &handle);
        if (ret == DAT_SUCCESS)
            psp = unique_psp(handle, loc);
        return ret;
    }
};

void add_create_cases(case_list &cases) {
    add_case(cases, "psp.create_evd_of_another_stream", [] {
        const psp_fixture fixture;
        const unique_evd other_evd = fixture.ia.create_evd(DAT_EVD_CONNECTION_FLAG);
        DAT_PSP_HANDLE handle = nullptr;
        expect_return(
            dat_psp_create(fixture.ia, unused_port(), other_evd, DAT_PSP_CONSUMER_FLAG, &handle),
            invalid_handle(DAT_INVALID_HANDLE_EVD_CR));
        DAT_CONN_QUAL port = 0;
        expect_return(
            dat_psp_create_any(fixture.ia, &port, other_evd, DAT_PSP_CONSUMER_FLAG, &handle),
            invalid_handle(DAT_INVALID_HANDLE_EVD_CR));
    });
    add_case(cases, "psp.create_flags_unknown", [] {
        const psp_fixture fixture;
        unique_psp psp;
        expect_return(fixture.create_psp(unused_port(), psp, enum_cast<DAT_PSP_FLAGS>(8)),
                      invalid_parameter(4));
    });
    add_case(cases, "psp.create_null", [] {
        const psp_fixture fixture;
        expect_return(dat_psp_create(fixture.ia, unused_port(), fixture.cr_evd,
                                     DAT_PSP_CONSUMER_FLAG, nullptr),
                      invalid_parameter(5));
    });
    add_case(cases, "psp.create_in_use", [] {
        const psp_fixture fixture;
        const DAT_CONN_QUAL port = unused_port();
        unique_psp first_psp, second_psp;
        require_success(fixture.create_psp(port, first_psp));
        expect_return(fixture.create_psp(port, second_psp), dat_error(DAT_CONN_QUAL_IN_USE));
        require_success(first_psp.free());
        expect_return(fixture.create_psp(port, second_psp), DAT_SUCCESS); // at once
    });
    add_case(cases, "psp.create_in_use_by_another_ia", [] {
        const psp_fixture fixture, other;
        const DAT_CONN_QUAL port = unused_port();
        unique_psp first_psp, second_psp;
        require_success(fixture.create_psp(port, first_psp));
        expect_return(other.create_psp(port, second_psp), dat_error(DAT_CONN_QUAL_IN_USE));
    });
    add_case(cases, "psp.query", [] {
        const psp_fixture fixture;
        const DAT_CONN_QUAL port = unused_port();
        unique_psp psp;
        require_success(fixture.create_psp(port, psp));
        poisoned<DAT_PSP_PARAM> param;
        require_success(dat_psp_query(psp, DAT_PSP_FIELD_ALL, param.ptr()));
        expect_eq(param->ia_handle, fixture.ia, "ia_handle");
        expect_eq(param->conn_qual, port, "conn_qual");
        expect_eq(param->evd_handle, fixture.cr_evd, "evd_handle");
        expect_eq(param->psp_flags, DAT_PSP_CONSUMER_FLAG, "psp_flags");
    });
    add_case(cases, "psp.query_mask_unknown", [] {
        const psp_fixture fixture;
        unique_psp psp;
        require_success(fixture.create_psp(unused_port(), psp));
        DAT_PSP_PARAM param{};
        expect_return(dat_psp_query(psp, enum_cast<DAT_PSP_PARAM_MASK>(0x10), &param),
                      invalid_parameter(2));
    });
    add_case(cases, "psp.query_null", [] {
        const psp_fixture fixture;
        unique_psp psp;
        require_success(fixture.create_psp(unused_port(), psp));
        expect_return(dat_psp_query(psp, DAT_PSP_FIELD_ALL, nullptr), invalid_parameter(3));
    });
    add_case(cases, "psp.many", [] {
        const psp_fixture fixture;
        std::vector<unique_psp> psps(30);
        for (unique_psp &psp : psps)
            require_success(fixture.create_psp(unused_port(), psp));
    });
}

void add_create_any_cases(case_list &cases) {
    add_case(cases, "psp.any", [] {
        ep_pair eps;
        DAT_CONN_QUAL first_port = 0, second_port = 0;
        DAT_PSP_HANDLE first_handle = nullptr, second_handle = nullptr;
        require_success(dat_psp_create_any(eps.ia, &first_port, eps.cr_evd, DAT_PSP_CONSUMER_FLAG,
                                           &first_handle));
        const unique_psp first_psp(first_handle);
        require_success(dat_psp_create_any(eps.ia, &second_port, eps.cr_evd, DAT_PSP_CONSUMER_FLAG,
                                           &second_handle));
        const unique_psp second_psp(second_handle);
        expect_true(first_port != 0 && second_port != 0, "a port is 0");
        expect_true(first_port != second_port, "both have the same port");
        DAT_PSP_PARAM param{};
        require_success(dat_psp_query(first_handle, DAT_PSP_FIELD_ALL, &param));
        expect_eq(param.conn_qual, first_port, "conn_qual");
        require_success(connect_ep(eps.active, ia_address(eps.ia.ipv4_address()), second_port));
        const DAT_EVENT event = next_event(eps.cr_evd, DAT_CONNECTION_REQUEST_EVENT);
        const auto &arrival = event.event_data.cr_arrival_event_data;
        expect_eq(arrival.sp_handle.psp_handle, second_handle, "the listener");
        expect_eq(arrival.conn_qual, second_port, "its port");
        require_success(dat_cr_reject(arrival.cr_handle, 0, nullptr));
        next_event(eps.active.connect_evd);
    });
    add_case(cases, "psp.any_null", [] {
        const psp_fixture fixture;
        DAT_PSP_HANDLE handle = nullptr;
        DAT_CONN_QUAL port = 0;
        expect_return(
            dat_psp_create_any(fixture.ia, nullptr, fixture.cr_evd, DAT_PSP_CONSUMER_FLAG, &handle),
            invalid_parameter(2));
        expect_return(
            dat_psp_create_any(fixture.ia, &port, fixture.cr_evd, DAT_PSP_CONSUMER_FLAG, nullptr),
            invalid_parameter(5));
    });
    add_case(cases, "psp.any_flags_unknown", [] {
        const psp_fixture fixture;
        DAT_PSP_HANDLE handle = nullptr;
        DAT_CONN_QUAL port = 0;
        expect_return(dat_psp_create_any(fixture.ia, &port, fixture.cr_evd,
                                         enum_cast<DAT_PSP_FLAGS>(8), &handle),
                      invalid_parameter(4));
    });
    add_case(cases, "psp.large_qualifier", [] { // beyond the ports of IP
        ep_pair eps;
        constexpr DAT_CONN_QUAL large_port = 0x123456789abcULL;
        DAT_PSP_HANDLE handle = nullptr;
        require_success(
            dat_psp_create(eps.ia, large_port, eps.cr_evd, DAT_PSP_CONSUMER_FLAG, &handle));
        const unique_psp psp(handle);
        DAT_PSP_PARAM param{};
        require_success(dat_psp_query(handle, DAT_PSP_FIELD_ALL, &param));
        expect_eq(param.conn_qual, large_port, "conn_qual");
        require_success(connect_ep(eps.active, ia_address(eps.ia.ipv4_address()), large_port));
        const DAT_EVENT event = next_event(eps.cr_evd, DAT_CONNECTION_REQUEST_EVENT);
        const auto &arrival = event.event_data.cr_arrival_event_data;
        expect_eq(arrival.conn_qual, large_port, "the request's conn_qual");
        require_success(dat_cr_accept(arrival.cr_handle, eps.passive, 0, nullptr));
        next_event(eps.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
        next_event(eps.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    });
}

/// DAT_PSP_PROVIDER_FLAG: a request comes with an EP that the provider has created, in a tentative
/// state. The consumer gives it PZ and EVDs, and accepts without an EP of its own. Refused if
/// ep_creator is NEVER.
void test_provider_creates_ep() {
    ep_pair eps;
    unique_psp psp;
    DAT_PSP_HANDLE handle = nullptr;
    const DAT_CONN_QUAL port = unused_port();
    const DAT_RETURN ret = dat_psp_create(eps.ia, port, eps.cr_evd, DAT_PSP_PROVIDER_FLAG, &handle);
    if (eps.ia.provider_attr().ep_creator == DAT_PSP_CREATES_EP_NEVER) {
        if (ret == DAT_SUCCESS)
            dat_psp_free(handle);
        expect_return(ret, {not_supported, invalid_parameter(4)});
        return;
    }
    require_success(ret);
    psp = unique_psp(handle);
    require_success(connect_ep(eps.active, ia_address(eps.ia.ipv4_address()), port));
    const DAT_CR_HANDLE cr = eps.next_cr();
    DAT_CR_PARAM param{};
    require_success(dat_cr_query(cr, DAT_CR_FIELD_ALL, &param));
    const DAT_EP_HANDLE provider_ep = param.local_ep_handle;
    require(provider_ep != nullptr, "the request has no EP");
    DAT_EP_PARAM ep_param{};
    require_success(dat_ep_query(provider_ep, DAT_EP_FIELD_ALL, &ep_param));
    expect_true(ep_param.ep_state == DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING ||
                    ep_param.ep_state == DAT_EP_STATE_UNCONFIGURED_TENTATIVE,
                "the EP's state is " + to_string(ep_param.ep_state));
    ep_param.pz_handle = eps.pz;
    ep_param.recv_evd_handle = eps.passive.recv_evd;
    ep_param.request_evd_handle = eps.passive.request_evd;
    ep_param.connect_evd_handle = eps.passive.connect_evd;
    require_success(dat_ep_modify(provider_ep,
                                  DAT_EP_FIELD_PZ_HANDLE | DAT_EP_FIELD_RECV_EVD_HANDLE |
                                      DAT_EP_FIELD_REQUEST_EVD_HANDLE |
                                      DAT_EP_FIELD_CONNECT_EVD_HANDLE,
                                  &ep_param));
    require_success(dat_cr_accept(cr, nullptr, 0, nullptr));
    next_event(eps.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    const DAT_EVENT event = next_event(eps.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    expect_eq(event.event_data.connect_event_data.ep_handle, provider_ep,
              "the EP that is connected");
    expect_return(dat_ep_free(provider_ep), DAT_SUCCESS);
    next_event(eps.active.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
}

void add_free_cases(case_list &cases) {
    add_case(cases, "psp.free_under_connection", [] { // which lives on
        ep_pair eps;
        eps.connect();
        require_success(eps.psp.free());
        require_success(post_rdma_write(eps.active, eps.lmr.make_lmr_triplet(0, 8),
                                        eps.lmr.make_rmr_triplet(page_size, 8), 1));
        expect_completion(eps.active.request_evd, eps.active, 1, 8);
        eps.disconnect();
    });
    add_case(cases, "psp.free_under_request", [] { // it can be accepted still
        ep_pair eps;
        require_success(eps.request_connection());
        const DAT_CR_HANDLE cr = eps.next_cr();
        require_success(eps.psp.free());
        require_success(dat_cr_accept(cr, eps.passive, 0, nullptr));
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
    add_create_cases(cases);
    add_create_any_cases(cases);
    add_case(cases, "psp.provider_makes_ep", test_provider_creates_ep);
    add_free_cases(cases);
}

} // namespace conform
