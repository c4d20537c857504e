// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Disconnecting, and freeing endpoints in all their states.

#include "cases.hpp"
#include "test_ep.hpp"
#include "thread.hpp"

namespace conform {

namespace {

constexpr DAT_CLOSE_FLAGS graceful = DAT_CLOSE_GRACEFUL_FLAG;
constexpr DAT_CLOSE_FLAGS abrupt = DAT_CLOSE_ABRUPT_FLAG;

/// Each endpoint is told once.
void both_told_once(const ep_pair &eps, source_location loc = current_location()) {
    for (const test_ep *each : {&eps.active, &eps.passive}) {
        const scoped_trace which(each == &eps.active ? "active" : "passive");
        const DAT_EVENT told =
            next_event(each->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED, loc);
        expect_eq(told.event_data.connect_event_data.ep_handle, *each, "the EP", loc);
    }
    for (const test_ep *each : {&eps.active, &eps.passive}) {
        const scoped_trace which(each == &eps.active ? "active" : "passive");
        each->expect_state(DAT_EP_STATE_DISCONNECTED, loc);
        expect_no_event(each->connect_evd, milliseconds(200), loc);
    }
}

void by_one(bool caller, DAT_CLOSE_FLAGS how) {
    ep_pair eps;
    eps.connect();
    require_success(dat_ep_disconnect(caller ? eps.active : eps.passive, how));
    both_told_once(eps);
}

void who(case_list &cases) {
    add_case(cases, "disconnect.gracefully", [] { by_one(true, graceful); });
    add_case(cases, "disconnect.abruptly", [] { by_one(true, abrupt); });
    add_case(cases, "disconnect.by_the_passive_side", [] { by_one(false, graceful); });
    add_case(cases, "disconnect.abruptly_by_the_passive_side", [] { by_one(false, abrupt); });
    add_case(cases, "disconnect.by_both", [] { // at the same time
        for (int i = 0; i < 5; ++i) {
            ep_pair eps;
            eps.connect();
            joined_thread other([&] { dat_ep_disconnect(eps.passive, DAT_CLOSE_ABRUPT_FLAG); });
            dat_ep_disconnect(eps.active, DAT_CLOSE_ABRUPT_FLAG);
            other.join();
            both_told_once(eps);
        }
    });
    add_case(cases, "disconnect.twice", [] { // the second time abruptly: that is allowed
        ep_pair eps;
        eps.connect();
        require_success(dat_ep_disconnect(eps.active, graceful));
        expect_return(dat_ep_disconnect(eps.active, abrupt), DAT_SUCCESS);
        both_told_once(eps);
    });
    add_case(cases, "disconnect.disconnected", [] { // nothing happens
        ep_pair eps;
        eps.connect();
        eps.disconnect();
        expect_return(dat_ep_disconnect(eps.active, graceful), DAT_SUCCESS);
        expect_return(dat_ep_disconnect(eps.passive, abrupt), DAT_SUCCESS);
        expect_no_event(eps.active.connect_evd, milliseconds(200));
        expect_no_event(eps.passive.connect_evd, milliseconds(20));
    });
}

void states(case_list &cases) {
    add_case(cases, "disconnect.unconnected", [] {
        ep_pair eps;
        expect_return(dat_ep_disconnect(eps.active, graceful),
                      invalid_state(DAT_INVALID_STATE_EP_UNCONNECTED));
        expect_return(dat_ep_disconnect(eps.active, abrupt),
                      invalid_state(DAT_INVALID_STATE_EP_UNCONNECTED));
        expect_no_event(eps.active.connect_evd);
    });
    add_case(cases, "disconnect.flags_unknown", [] {
        ep_pair eps;
        eps.connect();
        expect_return(dat_ep_disconnect(eps.active, enum_cast<DAT_CLOSE_FLAGS>(4)),
                      invalid_parameter(2));
        eps.active.expect_state(DAT_EP_STATE_CONNECTED);
    });
    add_case(cases, "disconnect.connecting", [] { // the peer has not answered yet
        ep_pair eps;
        require_success(eps.request_connection());
        const DAT_CR_HANDLE request = eps.next_cr();
        require_success(dat_ep_disconnect(eps.active, abrupt));
        next_event(eps.active.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
        eps.active.expect_state(DAT_EP_STATE_DISCONNECTED);
        expect_no_event(eps.active.connect_evd, milliseconds(100));
        dat_cr_reject(request, 0, nullptr); // whatever is said to that
        require_success(dat_ep_reset(eps.active));
        eps.connect();
    });
}

/// All receives come back, in the order they were posted, and the requests that did not get
/// through.
void flushed() {
    ep_pair eps;
    eps.connect();
    for (DAT_UINT64 i = 0; i < 5; ++i) {
        require_success(post_recv(eps.active, eps.lmr.lmr_triplet(page, 8), 200 + i));
        require_success(post_recv(eps.passive, eps.lmr.lmr_triplet(page, 8), 300 + i));
    }
    eps.disconnect();
    for (DAT_UINT64 i = 0; i < 5; ++i) {
        for (const auto &[one, cookie] :
             {std::pair{&eps.active, 200 + i}, std::pair{&eps.passive, 300 + i}}) {
            const auto is_now = next_completion(one->recv_evd);
            expect_eq(is_now.status, DAT_DTO_ERR_FLUSHED, "the status");
            expect_eq(is_now.user_cookie.as_64, cookie, "the cookie");
            expect_eq(is_now.ep_handle, *one, "the EP");
        }
    }
    expect_no_event(eps.active.recv_evd);
    expect_no_event(eps.passive.recv_evd);
}

/// What was sent before a graceful end arrives.
void drained() {
    for (int round = 0; round < 5; ++round) {
        ep_pair eps;
        eps.connect();
        constexpr DAT_UINT64 count = 6;
        for (DAT_UINT64 i = 0; i < count; ++i)
            require_success(post_recv(eps.passive, eps.lmr.lmr_triplet(page, 4096), i));
        for (DAT_UINT64 i = 0; i < count; ++i)
            require_success(post_send(eps.active, eps.lmr.lmr_triplet(0, 4096), i));
        require_success(dat_ep_disconnect(eps.active, graceful));
        for (DAT_UINT64 i = 0; i < count; ++i)
            expect_completion(eps.active.request_evd, eps.active, i, 4096);
        for (DAT_UINT64 i = 0; i < count; ++i)
            expect_completion(eps.passive.recv_evd, eps.passive, i, 4096);
        next_event(eps.active.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
        next_event(eps.passive.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    }
}

void freeing(case_list &cases) {
    add_case(cases, "disconnect.free_connected", [] { // the peer is told
        ep_pair eps;
        eps.connect();
        require_success(eps.active.ep.free());
        next_event(eps.passive.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
        expect_no_event(eps.passive.connect_evd);
    });
    add_case(cases, "disconnect.free_with_receives", [] {
        ep_pair eps;
        eps.connect();
        for (DAT_UINT64 i = 0; i < 5; ++i)
            require_success(post_recv(eps.active, eps.lmr.lmr_triplet(page, 8), i));
        require_success(eps.active.ep.free());
        next_event(eps.passive.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    });
    add_case(cases, "disconnect.free_with_requests", [] {
        ep_pair eps;
        eps.connect();
        for (DAT_UINT64 i = 0; i < 5; ++i)
            require_success(post_rdma_write(eps.active, eps.lmr.lmr_triplet(0, 8),
                                            eps.lmr.rmr_triplet(page, 8), i));
        require_success(eps.active.ep.free());
        next_event(eps.passive.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    });
    add_case(cases, "disconnect.free_connecting", [] {
        ep_pair eps;
        require_success(eps.request_connection());
        const DAT_CR_HANDLE request = eps.next_cr();
        require_success(eps.active.ep.free());
        dat_cr_reject(request, 0, nullptr); // whatever is said to that
    });
    add_case(cases, "disconnect.free_at_once", [] { // before anything can have happened
        for (int i = 0; i < 5; ++i) {
            ep_pair eps;
            require_success(eps.request_connection());
            require_success(eps.active.ep.free());
            // A request may have been under way.
            DAT_EVENT came{};
            DAT_COUNT more = 0;
            if (dat_evd_wait(eps.cr_evd, dat_timeout(milliseconds(100)), 1, &came, &more) ==
                DAT_SUCCESS)
                dat_cr_reject(came.event_data.cr_arrival_event_data.cr_handle, 0, nullptr);
        }
    });
    add_case(cases, "disconnect.free_disconnecting", [] {
        ep_pair eps;
        eps.connect();
        require_success(dat_ep_disconnect(eps.active, graceful));
        require_success(eps.active.ep.free());
        next_event(eps.passive.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    });
    add_case(cases, "disconnect.free_disconnected", [] {
        ep_pair eps;
        eps.connect();
        eps.disconnect();
        require_success(eps.active.ep.free());
        require_success(eps.passive.ep.free());
    });
    add_case(cases, "disconnect.free_at_both_ends", [] {
        ep_pair eps;
        eps.connect();
        require_success(eps.active.ep.free());
        require_success(eps.passive.ep.free());
    });
    add_case(cases, "disconnect.close_ia", [] { // abruptly, over a connection
        DAT_IA_HANDLE ia = nullptr;
        DAT_EVD_HANDLE async = nullptr;
        require_success(dat_ia_open(const_cast<char *>(settings().ia), 8, &async, &ia));
        DAT_PZ_HANDLE zone = nullptr;
        require_success(dat_pz_create(ia, &zone));
        DAT_EVD_HANDLE data = nullptr, life = nullptr;
        require_success(dat_evd_create(ia, 8, nullptr, DAT_EVD_DTO_FLAG, &data));
        require_success(dat_evd_create(ia, 8, nullptr, DAT_EVD_CONNECTION_FLAG, &life));
        DAT_EP_HANDLE one = nullptr;
        require_success(dat_ep_create(ia, zone, data, data, life, nullptr, &one));
        ep_pair eps;
        require_success(connect_ep(one, ia_address(eps.ia.ipv4_address()), eps.port));
        require_success(dat_cr_accept(eps.next_cr(), eps.passive, 0, nullptr));
        next_event(life, DAT_CONNECTION_EVENT_ESTABLISHED);
        next_event(eps.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
        expect_return(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
        next_event(eps.passive.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    });
}

} // namespace

void add_disconnect(case_list &cases) {
    who(cases);
    states(cases);
    add_case(cases, "disconnect.flushes_receives", flushed);
    add_case(cases, "disconnect.gracefully_drains", drained);
    freeing(cases);
}

} // namespace conform
