// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Endpoints: changing them, and using them again.

#include "lib/cases.hpp"
#include "lib/test_ep.hpp"

namespace conform {

namespace {

DAT_EP_PARAM query_ep(DAT_EP_HANDLE ep) {
    poisoned<DAT_EP_PARAM> param;
    require_success(dat_ep_query(ep, DAT_EP_FIELD_ALL, param.ptr()));
    return param.value();
}

/// An endpoint of modest size, and its parameters.
struct ep_modify_fixture {
    test_ia ia;
    unique_pz pz = ia.create_pz();
    test_ep ep = create_ep();
    DAT_EP_PARAM param = query_ep(ep);

    test_ep create_ep() const {
        const DAT_EP_ATTR attr = minimal_ep_attr();
        return test_ep(ia, pz, &attr);
    }
    DAT_RETURN modify(DAT_UINT64 mask) const { return dat_ep_modify(ep, mask, &param); }
};

/// A case in which dat_ep_modify with this mask fails, after `change` has made the field of the
/// mask invalid.
template <class Change>
void add_invalid_field_case(case_list &cases, const char *name, DAT_UINT64 mask, Change change,
                            DAT_RETURN other_return = invalid_parameter(3)) {
    add_case(cases, name, [=] {
        ep_modify_fixture fixture;
        change(fixture.param, fixture.ia.ia_attr());
        if (fixture.param.ep_attr.max_message_size == 0)
            throw case_skipped{"the limit is the largest number: nothing is beyond it"};
        expect_return(fixture.modify(mask), {invalid_parameter(3), other_return});
    });
}

void add_invalid_cases(case_list &cases) {
    add_case(cases, "ep_modify.mask_unknown", [] {
        const ep_modify_fixture fixture;
        expect_return(fixture.modify(DAT_EP_FIELD_ALL + 1), invalid_parameter(2));
    });
    add_case(cases, "ep_modify.null", [] {
        const ep_modify_fixture fixture;
        expect_return(dat_ep_modify(fixture.ep, DAT_EP_FIELD_PZ_HANDLE, nullptr),
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
            const scoped_trace trace(concat("mask 0x", std::hex, mask));
            expect_return(fixture.modify(mask), invalid_parameter(2));
        }
    });
    add_case(cases, "ep_modify.connected", [] {
        ep_pair eps;
        eps.connect();
        const DAT_EP_PARAM old_param = query_ep(eps.active);
        const unique_pz other_pz = eps.ia.create_pz();
        DAT_EP_PARAM param = old_param;
        param.pz_handle = other_pz;
        for (const DAT_UINT64 mask : {DAT_EP_FIELD_PZ_HANDLE, DAT_EP_FIELD_RECV_EVD_HANDLE,
                                      DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS}) {
            const scoped_trace trace(concat("mask 0x", std::hex, mask));
            expect_return(dat_ep_modify(eps.active, mask, &param),
                          invalid_state(DAT_INVALID_STATE_EP_CONNECTED));
        }
        expect_eq(query_ep(eps.active).pz_handle, eps.pz, "pz_handle");
    });
    add_invalid_field_case(cases, "ep_modify.pz_wrong", DAT_EP_FIELD_PZ_HANDLE,
                           SET(pz_handle, stray_handle()), invalid_handle(DAT_INVALID_HANDLE_PZ));
    add_invalid_field_case(cases, "ep_modify.recv_evd_wrong", DAT_EP_FIELD_RECV_EVD_HANDLE,
                           SET(recv_evd_handle, stray_handle()),
                           invalid_handle(DAT_INVALID_HANDLE_EVD_RECV));
    add_invalid_field_case(cases, "ep_modify.request_evd_wrong", DAT_EP_FIELD_REQUEST_EVD_HANDLE,
                           SET(request_evd_handle, stray_handle()),
                           invalid_handle(DAT_INVALID_HANDLE_EVD_REQUEST));
    add_invalid_field_case(cases, "ep_modify.connect_evd_wrong", DAT_EP_FIELD_CONNECT_EVD_HANDLE,
                           SET(connect_evd_handle, stray_handle()),
                           invalid_handle(DAT_INVALID_HANDLE_EVD_CONN));
    add_invalid_field_case(cases, "ep_modify.service_type_wrong", DAT_EP_FIELD_EP_ATTR_SERVICE_TYPE,
                           SET(ep_attr.service_type, enum_cast<DAT_SERVICE_TYPE>(9)));
    add_invalid_field_case(cases, "ep_modify.message_size_wrong",
                           DAT_EP_FIELD_EP_ATTR_MAX_MESSAGE_SIZE,
                           SET(ep_attr.max_message_size, limits.max_message_size + 1));
    add_invalid_field_case(cases, "ep_modify.recv_dtos_wrong", DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS,
                           SET(ep_attr.max_recv_dtos, limits.max_dto_per_ep + 1));
    add_invalid_field_case(cases, "ep_modify.request_dtos_wrong",
                           DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS,
                           SET(ep_attr.max_request_dtos, limits.max_dto_per_ep + 1));
    add_invalid_field_case(cases, "ep_modify.recv_iov_wrong", DAT_EP_FIELD_EP_ATTR_MAX_RECV_IOV,
                           SET(ep_attr.max_recv_iov, limits.max_iov_segments_per_dto + 1));
    add_invalid_field_case(cases, "ep_modify.rdma_read_out_wrong",
                           DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_OUT,
                           SET(ep_attr.max_rdma_read_out, limits.max_rdma_read_per_ep_out + 1));
}

/// dat_ep_modify raises the limits of an EP, which then takes as many receives.
void test_attributes() {
    constexpr DAT_COUNT new_recv_dtos = 30, new_request_dtos = 20, new_iov = 3;
    ep_modify_fixture fixture;
    DAT_EP_ATTR &new_attr = fixture.param.ep_attr;
    new_attr.max_recv_dtos = new_recv_dtos;
    new_attr.max_request_dtos = new_request_dtos;
    new_attr.max_recv_iov = new_attr.max_request_iov = new_iov;
    new_attr.max_rdma_read_in = new_attr.max_rdma_read_out = 1;
    constexpr DAT_UINT64 mask =
        DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS | DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS |
        DAT_EP_FIELD_EP_ATTR_MAX_RECV_IOV | DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_IOV |
        DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_IN | DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_OUT;
    require_success(fixture.modify(mask));
    const DAT_EP_ATTR attr = query_ep(fixture.ep).ep_attr;
    expect_true(attr.max_recv_dtos >= new_recv_dtos, "max_recv_dtos is as before");
    expect_true(attr.max_request_dtos >= new_request_dtos, "max_request_dtos is as before");
    expect_true(attr.max_recv_iov >= new_iov && attr.max_request_iov >= new_iov,
                "the iov limits are as before");
    const test_lmr lmr(fixture.ia, fixture.pz, page_size);
    for (DAT_UINT64 i = 0; i < new_recv_dtos; ++i)
        require_success(post_recv(fixture.ep, lmr.make_lmr_triplet(0, 8), i));
}

/// An EP that is created without PZ, EVDs and queue entries gets them by dat_ep_modify, and can be
/// connected.
void test_configured_later() {
    ep_pair eps;
    DAT_EP_ATTR empty_attr = minimal_ep_attr();
    empty_attr.max_recv_dtos = empty_attr.max_request_dtos = empty_attr.max_recv_iov =
        empty_attr.max_request_iov = 0;
    DAT_EP_HANDLE handle = nullptr;
    require_success(
        dat_ep_create(eps.ia, nullptr, nullptr, nullptr, nullptr, &empty_attr, &handle));
    eps.active.handle = unique_ep(handle);
    DAT_EP_PARAM new_param = query_ep(handle);
    new_param.pz_handle = eps.pz;
    new_param.recv_evd_handle = eps.active.recv_evd;
    new_param.request_evd_handle = eps.active.request_evd;
    new_param.connect_evd_handle = eps.active.connect_evd;
    new_param.ep_attr = minimal_ep_attr();
    require_success(dat_ep_modify(
        handle,
        DAT_EP_FIELD_PZ_HANDLE | DAT_EP_FIELD_RECV_EVD_HANDLE | DAT_EP_FIELD_REQUEST_EVD_HANDLE |
            DAT_EP_FIELD_CONNECT_EVD_HANDLE | DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS |
            DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS | DAT_EP_FIELD_EP_ATTR_MAX_RECV_IOV |
            DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_IOV,
        &new_param));
    const DAT_EP_PARAM param = query_ep(handle);
    expect_eq(param.pz_handle, eps.pz, "pz_handle");
    expect_eq(param.recv_evd_handle, eps.active.recv_evd, "recv_evd_handle");
    expect_eq(param.ep_state, DAT_EP_STATE_UNCONNECTED, "ep_state");
    eps.connect();
}

void add_valid_cases(case_list &cases) {
    add_case(cases, "ep_modify.attributes", test_attributes);
    add_case(cases, "ep_modify.configured_later", test_configured_later);
    add_case(cases, "ep_modify.evds", [] { // the new ones get the events
        ep_pair eps;
        const unique_evd recv_evd = eps.ia.create_evd(DAT_EVD_DTO_FLAG);
        const unique_evd request_evd = eps.ia.create_evd(DAT_EVD_DTO_FLAG);
        DAT_EP_PARAM new_param = query_ep(eps.active);
        new_param.recv_evd_handle = recv_evd;
        new_param.request_evd_handle = request_evd;
        require_success(dat_ep_modify(
            eps.active, DAT_EP_FIELD_RECV_EVD_HANDLE | DAT_EP_FIELD_REQUEST_EVD_HANDLE,
            &new_param));
        expect_return(eps.active.recv_evd.free(), DAT_SUCCESS); // not needed
        eps.connect_without_messages();
        require_success(post_rdma_write(eps.active, eps.lmr.make_lmr_triplet(0, 8),
                                        eps.lmr.make_rmr_triplet(page_size, 8), 5));
        expect_completion(request_evd, eps.active, 5, 8);
        require_success(eps.active.handle.free());
        next_event(eps.passive.connect_evd);
    });
    add_case(cases, "ep_modify.pz", [] { // memory of the new zone is right
        ep_pair eps;
        const unique_pz pz = eps.ia.create_pz();
        const test_lmr lmr(eps.ia, pz, page_size);
        DAT_EP_PARAM new_param = query_ep(eps.active);
        new_param.pz_handle = pz;
        require_success(dat_ep_modify(eps.active, DAT_EP_FIELD_PZ_HANDLE, &new_param));
        expect_eq(query_ep(eps.active).pz_handle, pz, "pz_handle");
        eps.connect_without_messages();
        require_success(post_rdma_write(eps.active, lmr.make_lmr_triplet(0, 8),
                                        eps.lmr.make_rmr_triplet(0, 8), 6));
        expect_completion(eps.active.request_evd, eps.active, 6, 8);
        require_success(eps.active.handle.free());
        next_event(eps.passive.connect_evd);
    });
    add_case(cases, "ep_modify.many_times", [] {
        ep_modify_fixture fixture;
        for (DAT_COUNT i = 0; i < 20; ++i) {
            fixture.param.ep_attr.max_recv_dtos = 10 + i;
            require_success(fixture.modify(DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS));
        }
    });
}

void add_reset_cases(case_list &cases) {
    add_case(cases, "ep_reset.unconnected", [] {
        const ep_modify_fixture fixture;
        expect_return(dat_ep_reset(fixture.ep), DAT_SUCCESS);
        fixture.ep.expect_state(DAT_EP_STATE_UNCONNECTED);
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
        const DAT_CR_HANDLE cr = eps.next_cr();
        expect_return(dat_ep_reset(eps.active), invalid_state(DAT_INVALID_STATE_EP_ACTCONNPENDING));
        require_success(dat_cr_accept(cr, eps.passive, 0, nullptr));
        next_event(eps.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    });
    add_case(cases, "ep_reset.and_again", [] {
        ep_pair eps;
        for (int i = 0; i < 5; ++i) {
            eps.connect();
            eps.disconnect();
            for (const test_ep *ep : {&eps.active, &eps.passive}) {
                require_success(dat_ep_reset(*ep));
                ep->expect_state(DAT_EP_STATE_UNCONNECTED);
            }
        }
    });
    add_case(cases, "ep_reset.sides_changed", [] { // active becomes passive
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
            require_success(post_recv(eps.passive, eps.lmr.make_lmr_triplet(page_size, 8), 50 + i));
        eps.disconnect();
        for (DAT_UINT64 i = 0; i < 3; ++i) {
            const auto dto = next_completion(eps.passive.recv_evd);
            expect_eq(dto.status, DAT_DTO_ERR_FLUSHED, "the status");
            expect_eq(dto.user_cookie.as_64, 50 + i, "the cookie");
        }
        require_success(dat_ep_reset(eps.active));
        require_success(dat_ep_reset(eps.passive));
        expect_no_event(eps.passive.recv_evd);
        eps.connect(); // its receive is the first
    });
    add_case(cases, "ep_reset.completions_stay", [] { // what is in the EVD already
        ep_pair eps;
        eps.connect();
        require_success(post_rdma_write(eps.active, eps.lmr.make_lmr_triplet(0, 8),
                                        eps.lmr.make_rmr_triplet(page_size, 8), 60));
        require_success(post_recv(eps.active, eps.lmr.make_lmr_triplet(page_size, 8), 61));
        expect_completion(eps.active.request_evd, eps.active, 60, 8);
        require_success(post_rdma_write(eps.active, eps.lmr.make_lmr_triplet(0, 8),
                                        eps.lmr.make_rmr_triplet(page_size, 8), 62));
        eps.disconnect();
        require_success(dat_ep_reset(eps.active));
        // Whether it came through before the end is open.
        const auto write_dto = next_completion(eps.active.request_evd);
        expect_eq(write_dto.user_cookie.as_64, 62, "the Write's cookie");
        const auto recv_dto = next_completion(eps.active.recv_evd);
        expect_eq(recv_dto.user_cookie.as_64, 61, "the receive's cookie");
        expect_eq(recv_dto.status, DAT_DTO_ERR_FLUSHED, "its status");
    });
}

} // namespace

void add_ep_modify(case_list &cases) {
    add_invalid_cases(cases);
    add_valid_cases(cases);
    add_reset_cases(cases);
}

} // namespace conform
