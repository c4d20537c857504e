// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Endpoints: changing them, and using them again.

#include "cases.hpp"
#include "test_ep.hpp"

namespace conform {

namespace {

DAT_EP_PARAM queried(DAT_EP_HANDLE one) {
    poisoned<DAT_EP_PARAM> is_now;
    require_success(dat_ep_query(one, DAT_EP_FIELD_ALL, is_now.ptr()));
    return is_now.value();
}

/// An endpoint of modest size, and its parameters.
struct ep_modify_fixture {
    test_ia ia;
    unique_pz zone = ia.create_pz();
    test_ep one = make();
    DAT_EP_PARAM wish = queried(one);

    test_ep make() const {
        const DAT_EP_ATTR attributes = portable_ep_attr();
        return test_ep(ia, zone, &attributes);
    }
    DAT_RETURN modify(DAT_UINT64 mask) const { return dat_ep_modify(one, mask, &wish); }
};

template <class Change>
void add_field(case_list &cases, const char *name, DAT_UINT64 mask, Change change,
               DAT_RETURN or_else = invalid_parameter(3)) {
    add_case(cases, name, [=] {
        ep_modify_fixture fixture;
        change(fixture.wish, fixture.ia.ia_attr());
        if (fixture.wish.ep_attr.max_message_size == 0)
            throw case_skipped{"the limit is the largest number: nothing is beyond it"};
        expect_return(fixture.modify(mask), {invalid_parameter(3), or_else});
    });
}

void add_invalid_cases(case_list &cases) {
    add_case(cases, "ep_modify.mask_unknown", [] {
        const ep_modify_fixture fixture;
        expect_return(fixture.modify(DAT_EP_FIELD_ALL + 1), invalid_parameter(2));
    });
    add_case(cases, "ep_modify.null", [] {
        const ep_modify_fixture fixture;
        expect_return(dat_ep_modify(fixture.one, DAT_EP_FIELD_PZ_HANDLE, nullptr),
                      invalid_parameter(3));
    });
    add_case(cases, "ep_modify.nothing", [] {
        const ep_modify_fixture fixture;
        expect_return(fixture.modify(0), DAT_SUCCESS);
    });
    add_case(cases, "ep_modify.fixed_fields", [] { // that no consumer sets
        const ep_modify_fixture fixture;
        for (const DAT_UINT64 mask :
             {DAT_EP_FIELD_IA_HANDLE, DAT_EP_FIELD_EP_STATE, DAT_EP_FIELD_LOCAL_IA_ADDRESS_PTR,
              DAT_EP_FIELD_LOCAL_PORT_QUAL, DAT_EP_FIELD_REMOTE_IA_ADDRESS_PTR,
              DAT_EP_FIELD_REMOTE_PORT_QUAL}) {
            const scoped_trace which(concat("mask 0x", std::hex, mask));
            expect_return(fixture.modify(mask), invalid_parameter(2));
        }
    });
    add_case(cases, "ep_modify.connected", [] {
        ep_pair eps;
        eps.connect();
        const DAT_EP_PARAM as_is = queried(eps.active);
        const unique_pz other = eps.ia.create_pz();
        DAT_EP_PARAM wish = as_is;
        wish.pz_handle = other;
        for (const DAT_UINT64 mask : {DAT_EP_FIELD_PZ_HANDLE, DAT_EP_FIELD_RECV_EVD_HANDLE,
                                      DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS}) {
            const scoped_trace which(concat("mask 0x", std::hex, mask));
            expect_return(dat_ep_modify(eps.active, mask, &wish),
                          invalid_state(DAT_INVALID_STATE_EP_CONNECTED));
        }
        expect_eq(queried(eps.active).pz_handle, eps.pz, "pz_handle");
    });
    add_field(cases, "ep_modify.pz_wrong", DAT_EP_FIELD_PZ_HANDLE, SET(pz_handle, stray_handle()),
              invalid_handle(DAT_INVALID_HANDLE_PZ));
    add_field(cases, "ep_modify.recv_evd_wrong", DAT_EP_FIELD_RECV_EVD_HANDLE,
              SET(recv_evd_handle, stray_handle()), invalid_handle(DAT_INVALID_HANDLE_EVD_RECV));
    add_field(cases, "ep_modify.request_evd_wrong", DAT_EP_FIELD_REQUEST_EVD_HANDLE,
              SET(request_evd_handle, stray_handle()),
              invalid_handle(DAT_INVALID_HANDLE_EVD_REQUEST));
    add_field(cases, "ep_modify.connect_evd_wrong", DAT_EP_FIELD_CONNECT_EVD_HANDLE,
              SET(connect_evd_handle, stray_handle()), invalid_handle(DAT_INVALID_HANDLE_EVD_CONN));
    add_field(cases, "ep_modify.service_type_wrong", DAT_EP_FIELD_EP_ATTR_SERVICE_TYPE,
              SET(ep_attr.service_type, enum_cast<DAT_SERVICE_TYPE>(9)));
    add_field(cases, "ep_modify.message_size_wrong", DAT_EP_FIELD_EP_ATTR_MAX_MESSAGE_SIZE,
              SET(ep_attr.max_message_size, limits.max_message_size + 1));
    add_field(cases, "ep_modify.recv_dtos_wrong", DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS,
              SET(ep_attr.max_recv_dtos, limits.max_dto_per_ep + 1));
    add_field(cases, "ep_modify.request_dtos_wrong", DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS,
              SET(ep_attr.max_request_dtos, limits.max_dto_per_ep + 1));
    add_field(cases, "ep_modify.recv_iov_wrong", DAT_EP_FIELD_EP_ATTR_MAX_RECV_IOV,
              SET(ep_attr.max_recv_iov, limits.max_iov_segments_per_dto + 1));
    add_field(cases, "ep_modify.rdma_read_out_wrong", DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_OUT,
              SET(ep_attr.max_rdma_read_out, limits.max_rdma_read_per_ep_out + 1));
}

void for_each_attribute() {
    ep_modify_fixture fixture;
    DAT_EP_ATTR &is = fixture.wish.ep_attr;
    is.max_recv_dtos = 30;
    is.max_request_dtos = 20;
    is.max_recv_iov = is.max_request_iov = 3;
    is.max_rdma_read_in = is.max_rdma_read_out = 1;
    constexpr DAT_UINT64 mask =
        DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS | DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS |
        DAT_EP_FIELD_EP_ATTR_MAX_RECV_IOV | DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_IOV |
        DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_IN | DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_OUT;
    require_success(fixture.modify(mask));
    const DAT_EP_ATTR now = queried(fixture.one).ep_attr;
    expect_true(now.max_recv_dtos >= 30, "max_recv_dtos is as before");
    expect_true(now.max_request_dtos >= 20, "max_request_dtos is as before");
    expect_true(now.max_recv_iov >= 3 && now.max_request_iov >= 3, "the iov limits are as before");
    const test_lmr memory(fixture.ia, fixture.zone, page);
    for (DAT_UINT64 i = 0; i < 30; ++i)
        require_success(post_recv(fixture.one, memory.lmr_triplet(0, 8), i));
}

/// An endpoint gets what it needs only after it was made, and works.
void configured_later() {
    ep_pair eps;
    DAT_EP_ATTR none = portable_ep_attr();
    none.max_recv_dtos = none.max_request_dtos = none.max_recv_iov = none.max_request_iov = 0;
    DAT_EP_HANDLE handle = nullptr;
    require_success(dat_ep_create(eps.ia, nullptr, nullptr, nullptr, nullptr, &none, &handle));
    eps.active.ep = unique_ep(handle);
    DAT_EP_PARAM wish = queried(handle);
    wish.pz_handle = eps.pz;
    wish.recv_evd_handle = eps.active.recv_evd;
    wish.request_evd_handle = eps.active.request_evd;
    wish.connect_evd_handle = eps.active.connect_evd;
    wish.ep_attr = portable_ep_attr();
    require_success(dat_ep_modify(
        handle,
        DAT_EP_FIELD_PZ_HANDLE | DAT_EP_FIELD_RECV_EVD_HANDLE | DAT_EP_FIELD_REQUEST_EVD_HANDLE |
            DAT_EP_FIELD_CONNECT_EVD_HANDLE | DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS |
            DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS | DAT_EP_FIELD_EP_ATTR_MAX_RECV_IOV |
            DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_IOV,
        &wish));
    const DAT_EP_PARAM is_now = queried(handle);
    expect_eq(is_now.pz_handle, eps.pz, "pz_handle");
    expect_eq(is_now.recv_evd_handle, eps.active.recv_evd, "recv_evd_handle");
    expect_eq(is_now.ep_state, DAT_EP_STATE_UNCONNECTED, "ep_state");
    eps.connect();
}

void right(case_list &cases) {
    add_case(cases, "ep_modify.attributes", for_each_attribute);
    add_case(cases, "ep_modify.configured_later", configured_later);
    add_case(cases, "ep_modify.evds", [] { // the new ones get the events
        ep_pair eps;
        const unique_evd receives = eps.ia.create_evd(DAT_EVD_DTO_FLAG);
        const unique_evd requests = eps.ia.create_evd(DAT_EVD_DTO_FLAG);
        DAT_EP_PARAM wish = queried(eps.active);
        wish.recv_evd_handle = receives;
        wish.request_evd_handle = requests;
        require_success(dat_ep_modify(
            eps.active, DAT_EP_FIELD_RECV_EVD_HANDLE | DAT_EP_FIELD_REQUEST_EVD_HANDLE, &wish));
        expect_return(eps.active.recv_evd.free(), DAT_SUCCESS); // not needed
        eps.connect_without_messages();
        require_success(post_rdma_write(eps.active, eps.lmr.lmr_triplet(0, 8),
                                        eps.lmr.rmr_triplet(page, 8), 5));
        expect_completion(requests, eps.active, 5, 8);
        require_success(eps.active.ep.free());
        next_event(eps.passive.connect_evd);
    });
    add_case(cases, "ep_modify.pz", [] { // memory of the new zone is right
        ep_pair eps;
        const unique_pz zone = eps.ia.create_pz();
        const test_lmr memory(eps.ia, zone, page);
        DAT_EP_PARAM wish = queried(eps.active);
        wish.pz_handle = zone;
        require_success(dat_ep_modify(eps.active, DAT_EP_FIELD_PZ_HANDLE, &wish));
        expect_eq(queried(eps.active).pz_handle, zone, "pz_handle");
        eps.connect_without_messages();
        require_success(
            post_rdma_write(eps.active, memory.lmr_triplet(0, 8), eps.lmr.rmr_triplet(0, 8), 6));
        expect_completion(eps.active.request_evd, eps.active, 6, 8);
        require_success(eps.active.ep.free());
        next_event(eps.passive.connect_evd);
    });
    add_case(cases, "ep_modify.many_times", [] {
        ep_modify_fixture fixture;
        for (DAT_COUNT i = 0; i < 20; ++i) {
            fixture.wish.ep_attr.max_recv_dtos = 10 + i;
            require_success(fixture.modify(DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS));
        }
    });
}

void resets(case_list &cases) {
    add_case(cases, "ep_reset.unconnected", [] {
        const ep_modify_fixture fixture;
        expect_return(dat_ep_reset(fixture.one), DAT_SUCCESS);
        fixture.one.expect_state(DAT_EP_STATE_UNCONNECTED);
    });
    add_case(cases, "ep_reset.connected", [] {
        ep_pair eps;
        eps.connect();
        expect_return(dat_ep_reset(eps.active), invalid_state(DAT_INVALID_STATE_EP_CONNECTED));
        eps.active.expect_state(DAT_EP_STATE_CONNECTED);
        eps.disconnect();
    });
    add_case(cases, "ep_reset.connecting", [] {
        ep_pair eps;
        require_success(eps.request_connection());
        const DAT_CR_HANDLE request = eps.next_cr();
        expect_return(dat_ep_reset(eps.active), invalid_state(DAT_INVALID_STATE_EP_ACTCONNPENDING));
        require_success(dat_cr_accept(request, eps.passive, 0, nullptr));
        next_event(eps.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    });
    add_case(cases, "ep_reset.and_again", [] {
        ep_pair eps;
        for (int i = 0; i < 5; ++i) {
            eps.connect();
            eps.disconnect();
            for (const test_ep *each : {&eps.active, &eps.passive}) {
                require_success(dat_ep_reset(*each));
                each->expect_state(DAT_EP_STATE_UNCONNECTED);
            }
        }
    });
    add_case(cases, "ep_reset.sides_changed", [] { // who called is called
        ep_pair eps;
        eps.connect();
        eps.disconnect();
        require_success(dat_ep_reset(eps.active));
        require_success(dat_ep_reset(eps.passive));
        std::swap(eps.active, eps.passive);
        eps.connect();
    });
    add_case(cases, "ep_reset.receives_gone", [] { // they were flushed, and are not posted again
        ep_pair eps;
        eps.connect();
        for (DAT_UINT64 i = 0; i < 3; ++i)
            require_success(post_recv(eps.passive, eps.lmr.lmr_triplet(page, 8), 50 + i));
        eps.disconnect();
        for (DAT_UINT64 i = 0; i < 3; ++i) {
            const auto flushed = next_completion(eps.passive.recv_evd);
            expect_eq(flushed.status, DAT_DTO_ERR_FLUSHED, "the status");
            expect_eq(flushed.user_cookie.as_64, 50 + i, "the cookie");
        }
        require_success(dat_ep_reset(eps.active));
        require_success(dat_ep_reset(eps.passive));
        expect_no_event(eps.passive.recv_evd);
        eps.connect(); // its receive is the first
    });
    add_case(cases, "ep_reset.completions_stay", [] { // what is in the EVD already
        ep_pair eps;
        eps.connect();
        require_success(post_rdma_write(eps.active, eps.lmr.lmr_triplet(0, 8),
                                        eps.lmr.rmr_triplet(page, 8), 60));
        require_success(post_recv(eps.active, eps.lmr.lmr_triplet(page, 8), 61));
        expect_completion(eps.active.request_evd, eps.active, 60, 8);
        require_success(post_rdma_write(eps.active, eps.lmr.lmr_triplet(0, 8),
                                        eps.lmr.rmr_triplet(page, 8), 62));
        eps.disconnect();
        require_success(dat_ep_reset(eps.active));
        // Whether it came through before the end is open.
        const auto write = next_completion(eps.active.request_evd);
        expect_eq(write.user_cookie.as_64, 62, "the Write's cookie");
        const auto receive = next_completion(eps.active.recv_evd);
        expect_eq(receive.user_cookie.as_64, 61, "the receive's cookie");
        expect_eq(receive.status, DAT_DTO_ERR_FLUSHED, "its status");
    });
}

} // namespace

void add_ep_modify(case_list &cases) {
    add_invalid_cases(cases);
    right(cases);
    resets(cases);
}

} // namespace conform
