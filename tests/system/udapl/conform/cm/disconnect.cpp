// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Disconnecting, and freeing endpoints in all their states.

#include "lib/cases.hpp"
#include "lib/test_ep.hpp"
#include "lib/thread.hpp"

namespace conform {

namespace {

constexpr DAT_CLOSE_FLAGS graceful = DAT_CLOSE_GRACEFUL_FLAG;
constexpr DAT_CLOSE_FLAGS abrupt = DAT_CLOSE_ABRUPT_FLAG;

/// Each EP gets one DISCONNECTED event.
void expect_disconnected_once(const ep_pair &eps, source_location loc = current_location()) {
    for (const test_ep *ep : {&eps.active, &eps.passive}) {
        const scoped_trace trace(ep == &eps.active ? "active" : "passive");
        const DAT_EVENT event = next_event(ep->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED, loc);
        expect_eq(event.event_data.connect_event_data.ep_handle, *ep, "the EP", loc);
    }
    for (const test_ep *ep : {&eps.active, &eps.passive}) {
        const scoped_trace trace(ep == &eps.active ? "active" : "passive");
        ep->expect_state(DAT_EP_STATE_DISCONNECTED, loc);
        expect_no_event(ep->connect_evd, milliseconds(200), loc);
    }
}

/// A connected EP, the active or the passive one, disconnects.
void test_disconnect(bool by_active, DAT_CLOSE_FLAGS flags) {
    ep_pair eps;
    eps.connect();
    require_success(dat_ep_disconnect(by_active ? eps.active : eps.passive, flags));
    expect_disconnected_once(eps);
}

void add_disconnect_cases(case_list &cases) {
    add_case(cases, "disconnect.gracefully", [] { test_disconnect(/*by_active=*/true, graceful); });
    add_case(cases, "disconnect.abruptly", [] { test_disconnect(/*by_active=*/true, abrupt); });
    add_case(cases, "disconnect.by_the_passive_side",
             [] { test_disconnect(/*by_active=*/false, graceful); });
    add_case(cases, "disconnect.abruptly_by_the_passive_side",
             [] { test_disconnect(/*by_active=*/false, abrupt); });
    add_case(cases, "disconnect.by_both", [] { // at the same time
        for (int i = 0; i < 5; ++i) {
            ep_pair eps;
            eps.connect();
            joined_thread passive_thread(
                [&] { dat_ep_disconnect(eps.passive, DAT_CLOSE_ABRUPT_FLAG); });
            dat_ep_disconnect(eps.active, DAT_CLOSE_ABRUPT_FLAG);
            passive_thread.join();
            expect_disconnected_once(eps);
        }
    });
    add_case(cases, "disconnect.twice", [] { // the second time abruptly: that is allowed
        ep_pair eps;
        eps.connect();
        require_success(dat_ep_disconnect(eps.active, graceful));
        expect_return(dat_ep_disconnect(eps.active, abrupt), DAT_SUCCESS);
        expect_disconnected_once(eps);
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

void add_state_cases(case_list &cases) {
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
        const DAT_CR_HANDLE cr = eps.next_cr();
        require_success(dat_ep_disconnect(eps.active, abrupt));
        next_event(eps.active.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
        eps.active.expect_state(DAT_EP_STATE_DISCONNECTED);
        expect_no_event(eps.active.connect_evd, milliseconds(100));
        dat_cr_reject(cr, 0, nullptr); // any result is valid
        require_success(dat_ep_reset(eps.active));
        eps.connect();
    });
}

/// A disconnect flushes the posted receives of both EPs, in the order they were posted.
void test_flush() {
    ep_pair eps;
    eps.connect();
    for (DAT_UINT64 i = 0; i < 5; ++i) {
        require_success(post_recv(eps.active, eps.lmr.make_lmr_triplet(page_size, 8), 200 + i));
        require_success(post_recv(eps.passive, eps.lmr.make_lmr_triplet(page_size, 8), 300 + i));
    }
    eps.disconnect();
    for (DAT_UINT64 i = 0; i < 5; ++i) {
        for (const auto &[ep, cookie] :
             {std::pair{&eps.active, 200 + i}, std::pair{&eps.passive, 300 + i}}) {
            const auto dto = next_completion(ep->recv_evd);
            expect_eq(dto.status, DAT_DTO_ERR_FLUSHED, "the status");
            expect_eq(dto.user_cookie.as_64, cookie, "the cookie");
            expect_eq(dto.ep_handle, *ep, "the EP");
        }
    }
    expect_no_event(eps.active.recv_evd);
    expect_no_event(eps.passive.recv_evd);
}

/// Messages that were sent before a graceful disconnect arrive: their Sends and receives succeed.
void test_graceful_drain() {
    for (int round = 0; round < 5; ++round) {
        ep_pair eps;
        eps.connect();
        constexpr DAT_UINT64 count = 6;
        for (DAT_UINT64 i = 0; i < count; ++i)
            require_success(post_recv(eps.passive, eps.lmr.make_lmr_triplet(page_size, 4096), i));
        for (DAT_UINT64 i = 0; i < count; ++i)
            require_success(post_send(eps.active, eps.lmr.make_lmr_triplet(0, 4096), i));
        require_success(dat_ep_disconnect(eps.active, graceful));
        for (DAT_UINT64 i = 0; i < count; ++i)
            expect_completion(eps.active.request_evd, eps.active, i, 4096);
        for (DAT_UINT64 i = 0; i < count; ++i)
            expect_completion(eps.passive.recv_evd, eps.passive, i, 4096);
        next_event(eps.active.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
        next_event(eps.passive.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    }
}

void add_free_cases(case_list &cases) {
    add_case(cases, "disconnect.free_connected", [] { // the peer gets an event
        ep_pair eps;
        eps.connect();
        require_success(eps.active.handle.free());
        next_event(eps.passive.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
        expect_no_event(eps.passive.connect_evd);
    });
    add_case(cases, "disconnect.free_with_receives", [] {
        ep_pair eps;
        eps.connect();
        for (DAT_UINT64 i = 0; i < 5; ++i)
            require_success(post_recv(eps.active, eps.lmr.make_lmr_triplet(page_size, 8), i));
        require_success(eps.active.handle.free());
        next_event(eps.passive.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    });
    add_case(cases, "disconnect.free_with_requests", [] {
        ep_pair eps;
        eps.connect();
        for (DAT_UINT64 i = 0; i < 5; ++i)
            require_success(post_rdma_write(eps.active, eps.lmr.make_lmr_triplet(0, 8),
                                            eps.lmr.make_rmr_triplet(page_size, 8), i));
        require_success(eps.active.handle.free());
        next_event(eps.passive.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    });
    add_case(cases, "disconnect.free_connecting", [] {
        ep_pair eps;
        require_success(eps.request_connection());
        const DAT_CR_HANDLE cr = eps.next_cr();
        require_success(eps.active.handle.free());
        dat_cr_reject(cr, 0, nullptr); // any result is valid
    });
    add_case(cases, "disconnect.free_at_once", [] { // before anything can have happened
        for (int i = 0; i < 5; ++i) {
            ep_pair eps;
            require_success(eps.request_connection());
            require_success(eps.active.handle.free());
            // A request may have been under way.
            DAT_EVENT event{};
            DAT_COUNT nmore = 0;
            if (dat_evd_wait(eps.cr_evd, dat_timeout(milliseconds(100)), 1, &event, &nmore) ==
                DAT_SUCCESS)
                dat_cr_reject(event.event_data.cr_arrival_event_data.cr_handle, 0, nullptr);
        }
    });
    add_case(cases, "disconnect.free_disconnecting", [] {
        ep_pair eps;
        eps.connect();
        require_success(dat_ep_disconnect(eps.active, graceful));
        require_success(eps.active.handle.free());
        next_event(eps.passive.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    });
    add_case(cases, "disconnect.free_disconnected", [] {
        ep_pair eps;
        eps.connect();
        eps.disconnect();
        require_success(eps.active.handle.free());
        require_success(eps.passive.handle.free());
    });
    add_case(cases, "disconnect.free_at_both_ends", [] {
        ep_pair eps;
        eps.connect();
        require_success(eps.active.handle.free());
        require_success(eps.passive.handle.free());
    });
    add_case(cases, "disconnect.close_ia", [] { // abruptly, over a connection
        DAT_IA_HANDLE ia = nullptr;
        DAT_EVD_HANDLE async_evd = nullptr;
        require_success(dat_ia_open(const_cast<char *>(settings().ia), 8, &async_evd, &ia));
        DAT_PZ_HANDLE pz = nullptr;
        require_success(dat_pz_create(ia, &pz));
        DAT_EVD_HANDLE dto_evd = nullptr, connect_evd = nullptr;
        require_success(dat_evd_create(ia, 8, nullptr, DAT_EVD_DTO_FLAG, &dto_evd));
        require_success(dat_evd_create(ia, 8, nullptr, DAT_EVD_CONNECTION_FLAG, &connect_evd));
        DAT_EP_HANDLE ep = nullptr;
        require_success(dat_ep_create(ia, pz, dto_evd, dto_evd, connect_evd, nullptr, &ep));
        ep_pair eps;
        require_success(connect_ep(ep, ia_address(eps.ia.ipv4_address()), eps.port));
        require_success(dat_cr_accept(eps.next_cr(), eps.passive, 0, nullptr));
        next_event(connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
        next_event(eps.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
        expect_return(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
        next_event(eps.passive.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    });
}

} // namespace

void add_disconnect(case_list &cases) {
    add_disconnect_cases(cases);
    add_state_cases(cases);
    add_case(cases, "disconnect.flushes_receives", test_flush);
    add_case(cases, "disconnect.gracefully_drains", test_graceful_drain);
    add_free_cases(cases);
}

} // namespace conform
