// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Endpoints: changing them, and using them again.

#include "cases.hpp"
#include "endpoint.hpp"

namespace conform {

namespace {

DAT_EP_PARAM queried(DAT_EP_HANDLE one) {
    filled<DAT_EP_PARAM> is_now;
    require_success(dat_ep_query(one, DAT_EP_FIELD_ALL, is_now.out()));
    return is_now.in();
}

/// An endpoint of modest size, and its parameters.
struct place {
    adapter ia;
    unique_pz zone = ia.zone();
    endpoint one = make();
    DAT_EP_PARAM wish = queried(one);

    endpoint make() const {
        const DAT_EP_ATTR attributes = modest();
        return endpoint(ia, zone, &attributes);
    }
    DAT_RETURN modify(DAT_UINT64 mask) const { return dat_ep_modify(one, mask, &wish); }
};

template <class Change>
void add_field(case_list &cases, const char *name, DAT_UINT64 mask, Change change,
               DAT_RETURN or_else = invalid_parameter(3)) {
    add_case(cases, name, [=] {
        place here_is;
        change(here_is.wish, here_is.ia.attributes());
        if (here_is.wish.ep_attr.max_message_size == 0)
            throw case_skipped{"the limit is the largest number: nothing is beyond it"};
        expect_return(here_is.modify(mask), {invalid_parameter(3), or_else});
    });
}

void add_invalid_cases(case_list &cases) {
    add_case(cases, "ep_modify.mask_unknown", [] {
        const place here_is;
        expect_return(here_is.modify(DAT_EP_FIELD_ALL + 1), invalid_parameter(2));
    });
    add_case(cases, "ep_modify.null", [] {
        const place here_is;
        expect_return(dat_ep_modify(here_is.one, DAT_EP_FIELD_PZ_HANDLE, nullptr),
                      invalid_parameter(3));
    });
    add_case(cases, "ep_modify.nothing", [] {
        const place here_is;
        expect_return(here_is.modify(0), DAT_SUCCESS);
    });
    add_case(cases, "ep_modify.fixed_fields", [] { // that no consumer sets
        const place here_is;
        for (const DAT_UINT64 mask :
             {DAT_EP_FIELD_IA_HANDLE, DAT_EP_FIELD_EP_STATE, DAT_EP_FIELD_LOCAL_IA_ADDRESS_PTR,
              DAT_EP_FIELD_LOCAL_PORT_QUAL, DAT_EP_FIELD_REMOTE_IA_ADDRESS_PTR,
              DAT_EP_FIELD_REMOTE_PORT_QUAL}) {
            const scoped_trace which(concat("mask 0x", std::hex, mask));
            expect_return(here_is.modify(mask), invalid_parameter(2));
        }
    });
    add_case(cases, "ep_modify.connected", [] {
        couple pair;
        pair.join();
        const DAT_EP_PARAM as_is = queried(pair.active);
        const unique_pz other = pair.ia.zone();
        DAT_EP_PARAM wish = as_is;
        wish.pz_handle = other;
        for (const DAT_UINT64 mask : {DAT_EP_FIELD_PZ_HANDLE, DAT_EP_FIELD_RECV_EVD_HANDLE,
                                      DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS}) {
            const scoped_trace which(concat("mask 0x", std::hex, mask));
            expect_return(dat_ep_modify(pair.active, mask, &wish),
                          invalid_state(DAT_INVALID_STATE_EP_CONNECTED));
        }
        expect_eq(queried(pair.active).pz_handle, pair.zone, "pz_handle");
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
    place here_is;
    DAT_EP_ATTR &is = here_is.wish.ep_attr;
    is.max_recv_dtos = 30;
    is.max_request_dtos = 20;
    is.max_recv_iov = is.max_request_iov = 3;
    is.max_rdma_read_in = is.max_rdma_read_out = 1;
    constexpr DAT_UINT64 mask =
        DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS | DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS |
        DAT_EP_FIELD_EP_ATTR_MAX_RECV_IOV | DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_IOV |
        DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_IN | DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_OUT;
    require_success(here_is.modify(mask));
    const DAT_EP_ATTR now = queried(here_is.one).ep_attr;
    expect_true(now.max_recv_dtos >= 30, "max_recv_dtos is as before");
    expect_true(now.max_request_dtos >= 20, "max_request_dtos is as before");
    expect_true(now.max_recv_iov >= 3 && now.max_request_iov >= 3, "the iov limits are as before");
    const region memory(here_is.ia, here_is.zone, page);
    for (DAT_UINT64 i = 0; i < 30; ++i)
        require_success(post_receive(here_is.one, memory.piece(0, 8), i));
}

/// An endpoint gets what it needs only after it was made, and works.
void configured_later() {
    couple pair;
    DAT_EP_ATTR none = modest();
    none.max_recv_dtos = none.max_request_dtos = none.max_recv_iov = none.max_request_iov = 0;
    DAT_EP_HANDLE handle = nullptr;
    require_success(dat_ep_create(pair.ia, nullptr, nullptr, nullptr, nullptr, &none, &handle));
    pair.active.handle = unique_ep(handle);
    DAT_EP_PARAM wish = queried(handle);
    wish.pz_handle = pair.zone;
    wish.recv_evd_handle = pair.active.received;
    wish.request_evd_handle = pair.active.requested;
    wish.connect_evd_handle = pair.active.connection;
    wish.ep_attr = modest();
    require_success(dat_ep_modify(
        handle,
        DAT_EP_FIELD_PZ_HANDLE | DAT_EP_FIELD_RECV_EVD_HANDLE | DAT_EP_FIELD_REQUEST_EVD_HANDLE |
            DAT_EP_FIELD_CONNECT_EVD_HANDLE | DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS |
            DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS | DAT_EP_FIELD_EP_ATTR_MAX_RECV_IOV |
            DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_IOV,
        &wish));
    const DAT_EP_PARAM is_now = queried(handle);
    expect_eq(is_now.pz_handle, pair.zone, "pz_handle");
    expect_eq(is_now.recv_evd_handle, pair.active.received, "recv_evd_handle");
    expect_eq(is_now.ep_state, DAT_EP_STATE_UNCONNECTED, "ep_state");
    pair.join();
}

void right(case_list &cases) {
    add_case(cases, "ep_modify.attributes", for_each_attribute);
    add_case(cases, "ep_modify.configured_later", configured_later);
    add_case(cases, "ep_modify.evds", [] { // the new ones get the events
        couple pair;
        const unique_evd receives = pair.ia.events(DAT_EVD_DTO_FLAG);
        const unique_evd requests = pair.ia.events(DAT_EVD_DTO_FLAG);
        DAT_EP_PARAM wish = queried(pair.active);
        wish.recv_evd_handle = receives;
        wish.request_evd_handle = requests;
        require_success(dat_ep_modify(
            pair.active, DAT_EP_FIELD_RECV_EVD_HANDLE | DAT_EP_FIELD_REQUEST_EVD_HANDLE, &wish));
        expect_return(pair.active.received.free(), DAT_SUCCESS); // not needed
        pair.join_silently();
        require_success(
            post_write(pair.active, pair.memory.piece(0, 8), pair.memory.target(page, 8), 5));
        completed(requests, pair.active, 5, 8);
        require_success(pair.active.handle.free());
        next_event(pair.passive.connection);
    });
    add_case(cases, "ep_modify.pz", [] { // memory of the new zone is right
        couple pair;
        const unique_pz zone = pair.ia.zone();
        const region memory(pair.ia, zone, page);
        DAT_EP_PARAM wish = queried(pair.active);
        wish.pz_handle = zone;
        require_success(dat_ep_modify(pair.active, DAT_EP_FIELD_PZ_HANDLE, &wish));
        expect_eq(queried(pair.active).pz_handle, zone, "pz_handle");
        pair.join_silently();
        require_success(post_write(pair.active, memory.piece(0, 8), pair.memory.target(0, 8), 6));
        completed(pair.active.requested, pair.active, 6, 8);
        require_success(pair.active.handle.free());
        next_event(pair.passive.connection);
    });
    add_case(cases, "ep_modify.many_times", [] {
        place here_is;
        for (DAT_COUNT i = 0; i < 20; ++i) {
            here_is.wish.ep_attr.max_recv_dtos = 10 + i;
            require_success(here_is.modify(DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS));
        }
    });
}

void resets(case_list &cases) {
    add_case(cases, "ep_reset.unconnected", [] {
        const place here_is;
        expect_return(dat_ep_reset(here_is.one), DAT_SUCCESS);
        here_is.one.is_in(DAT_EP_STATE_UNCONNECTED);
    });
    add_case(cases, "ep_reset.connected", [] {
        couple pair;
        pair.join();
        expect_return(dat_ep_reset(pair.active), invalid_state(DAT_INVALID_STATE_EP_CONNECTED));
        pair.active.is_in(DAT_EP_STATE_CONNECTED);
        pair.part();
    });
    add_case(cases, "ep_reset.connecting", [] {
        couple pair;
        require_success(pair.call());
        const DAT_CR_HANDLE request = pair.request();
        expect_return(dat_ep_reset(pair.active),
                      invalid_state(DAT_INVALID_STATE_EP_ACTCONNPENDING));
        require_success(dat_cr_accept(request, pair.passive, 0, nullptr));
        next_event(pair.active.connection, DAT_CONNECTION_EVENT_ESTABLISHED);
    });
    add_case(cases, "ep_reset.and_again", [] {
        couple pair;
        for (int i = 0; i < 5; ++i) {
            pair.join();
            pair.part();
            for (const endpoint *each : {&pair.active, &pair.passive}) {
                require_success(dat_ep_reset(*each));
                each->is_in(DAT_EP_STATE_UNCONNECTED);
            }
        }
    });
    add_case(cases, "ep_reset.sides_changed", [] { // who called is called
        couple pair;
        pair.join();
        pair.part();
        require_success(dat_ep_reset(pair.active));
        require_success(dat_ep_reset(pair.passive));
        std::swap(pair.active, pair.passive);
        pair.join();
    });
    add_case(cases, "ep_reset.receives_gone", [] { // they were flushed, and are not posted again
        couple pair;
        pair.join();
        for (DAT_UINT64 i = 0; i < 3; ++i)
            require_success(post_receive(pair.passive, pair.memory.piece(page, 8), 50 + i));
        pair.part();
        for (DAT_UINT64 i = 0; i < 3; ++i) {
            const auto flushed = completion(pair.passive.received);
            expect_eq(flushed.status, DAT_DTO_ERR_FLUSHED, "the status");
            expect_eq(flushed.user_cookie.as_64, 50 + i, "the cookie");
        }
        require_success(dat_ep_reset(pair.active));
        require_success(dat_ep_reset(pair.passive));
        no_event(pair.passive.received);
        pair.join(); // its receive is the first
    });
    add_case(cases, "ep_reset.completions_stay", [] { // what is in the EVD already
        couple pair;
        pair.join();
        require_success(
            post_write(pair.active, pair.memory.piece(0, 8), pair.memory.target(page, 8), 60));
        require_success(post_receive(pair.active, pair.memory.piece(page, 8), 61));
        completed(pair.active.requested, pair.active, 60, 8);
        require_success(
            post_write(pair.active, pair.memory.piece(0, 8), pair.memory.target(page, 8), 62));
        pair.part();
        require_success(dat_ep_reset(pair.active));
        // Whether it came through before the end is open.
        const auto write = completion(pair.active.requested);
        expect_eq(write.user_cookie.as_64, 62, "the Write's cookie");
        const auto receive = completion(pair.active.received);
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
