// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Disconnecting, and freeing endpoints in all their states.

#include "cases.hpp"
#include "endpoint.hpp"
#include "thread.hpp"

namespace conform {

namespace {

constexpr DAT_CLOSE_FLAGS graceful = DAT_CLOSE_GRACEFUL_FLAG;
constexpr DAT_CLOSE_FLAGS abrupt = DAT_CLOSE_ABRUPT_FLAG;

/// Each endpoint is told once.
void both_told_once(const couple &pair, source_location loc = current_location()) {
    for (const endpoint *each : {&pair.active, &pair.passive}) {
        const scoped_trace which(each == &pair.active ? "active" : "passive");
        const DAT_EVENT told = next_event(each->connection, DAT_CONNECTION_EVENT_DISCONNECTED, loc);
        expect_eq(told.event_data.connect_event_data.ep_handle, *each, "the EP", loc);
    }
    for (const endpoint *each : {&pair.active, &pair.passive}) {
        const scoped_trace which(each == &pair.active ? "active" : "passive");
        each->is_in(DAT_EP_STATE_DISCONNECTED, loc);
        no_event(each->connection, milliseconds(200), loc);
    }
}

void by_one(bool caller, DAT_CLOSE_FLAGS how) {
    couple pair;
    pair.join();
    require_success(dat_ep_disconnect(caller ? pair.active : pair.passive, how));
    both_told_once(pair);
}

void who(case_list &cases) {
    add_case(cases, "disconnect.gracefully", [] { by_one(true, graceful); });
    add_case(cases, "disconnect.abruptly", [] { by_one(true, abrupt); });
    add_case(cases, "disconnect.by_the_passive_side", [] { by_one(false, graceful); });
    add_case(cases, "disconnect.abruptly_by_the_passive_side", [] { by_one(false, abrupt); });
    add_case(cases, "disconnect.by_both", [] { // at the same time
        for (int i = 0; i < 5; ++i) {
            couple pair;
            pair.join();
            joined_thread other([&] { dat_ep_disconnect(pair.passive, DAT_CLOSE_ABRUPT_FLAG); });
            dat_ep_disconnect(pair.active, DAT_CLOSE_ABRUPT_FLAG);
            other.join();
            both_told_once(pair);
        }
    });
    add_case(cases, "disconnect.twice", [] { // the second time abruptly: that is allowed
        couple pair;
        pair.join();
        require_success(dat_ep_disconnect(pair.active, graceful));
        expect_return(dat_ep_disconnect(pair.active, abrupt), DAT_SUCCESS);
        both_told_once(pair);
    });
    add_case(cases, "disconnect.disconnected", [] { // nothing happens
        couple pair;
        pair.join();
        pair.part();
        expect_return(dat_ep_disconnect(pair.active, graceful), DAT_SUCCESS);
        expect_return(dat_ep_disconnect(pair.passive, abrupt), DAT_SUCCESS);
        no_event(pair.active.connection, milliseconds(200));
        no_event(pair.passive.connection, milliseconds(20));
    });
}

void states(case_list &cases) {
    add_case(cases, "disconnect.unconnected", [] {
        couple pair;
        expect_return(dat_ep_disconnect(pair.active, graceful),
                      invalid_state(DAT_INVALID_STATE_EP_UNCONNECTED));
        expect_return(dat_ep_disconnect(pair.active, abrupt),
                      invalid_state(DAT_INVALID_STATE_EP_UNCONNECTED));
        no_event(pair.active.connection);
    });
    add_case(cases, "disconnect.flags_unknown", [] {
        couple pair;
        pair.join();
        expect_return(dat_ep_disconnect(pair.active, enum_cast<DAT_CLOSE_FLAGS>(4)),
                      invalid_parameter(2));
        pair.active.is_in(DAT_EP_STATE_CONNECTED);
    });
    add_case(cases, "disconnect.connecting", [] { // the peer has not answered yet
        couple pair;
        require_success(pair.call());
        const DAT_CR_HANDLE request = pair.request();
        require_success(dat_ep_disconnect(pair.active, abrupt));
        next_event(pair.active.connection, DAT_CONNECTION_EVENT_DISCONNECTED);
        pair.active.is_in(DAT_EP_STATE_DISCONNECTED);
        no_event(pair.active.connection, milliseconds(100));
        dat_cr_reject(request, 0, nullptr); // whatever is said to that
        require_success(dat_ep_reset(pair.active));
        pair.join();
    });
}

/// All receives come back, in the order they were posted, and the requests that did not get
/// through.
void flushed() {
    couple pair;
    pair.join();
    for (DAT_UINT64 i = 0; i < 5; ++i) {
        require_success(post_receive(pair.active, pair.memory.piece(page, 8), 200 + i));
        require_success(post_receive(pair.passive, pair.memory.piece(page, 8), 300 + i));
    }
    pair.part();
    for (DAT_UINT64 i = 0; i < 5; ++i) {
        for (const auto &[one, cookie] :
             {std::pair{&pair.active, 200 + i}, std::pair{&pair.passive, 300 + i}}) {
            const auto is_now = completion(one->received);
            expect_eq(is_now.status, DAT_DTO_ERR_FLUSHED, "the status");
            expect_eq(is_now.user_cookie.as_64, cookie, "the cookie");
            expect_eq(is_now.ep_handle, *one, "the EP");
        }
    }
    no_event(pair.active.received);
    no_event(pair.passive.received);
}

/// What was sent before a graceful end arrives.
void drained() {
    for (int round = 0; round < 5; ++round) {
        couple pair;
        pair.join();
        constexpr DAT_UINT64 count = 6;
        for (DAT_UINT64 i = 0; i < count; ++i)
            require_success(post_receive(pair.passive, pair.memory.piece(page, 4096), i));
        for (DAT_UINT64 i = 0; i < count; ++i)
            require_success(post_send(pair.active, pair.memory.piece(0, 4096), i));
        require_success(dat_ep_disconnect(pair.active, graceful));
        for (DAT_UINT64 i = 0; i < count; ++i)
            completed(pair.active.requested, pair.active, i, 4096);
        for (DAT_UINT64 i = 0; i < count; ++i)
            completed(pair.passive.received, pair.passive, i, 4096);
        next_event(pair.active.connection, DAT_CONNECTION_EVENT_DISCONNECTED);
        next_event(pair.passive.connection, DAT_CONNECTION_EVENT_DISCONNECTED);
    }
}

void freeing(case_list &cases) {
    add_case(cases, "disconnect.free_connected", [] { // the peer is told
        couple pair;
        pair.join();
        require_success(pair.active.handle.free());
        next_event(pair.passive.connection, DAT_CONNECTION_EVENT_DISCONNECTED);
        no_event(pair.passive.connection);
    });
    add_case(cases, "disconnect.free_with_receives", [] {
        couple pair;
        pair.join();
        for (DAT_UINT64 i = 0; i < 5; ++i)
            require_success(post_receive(pair.active, pair.memory.piece(page, 8), i));
        require_success(pair.active.handle.free());
        next_event(pair.passive.connection, DAT_CONNECTION_EVENT_DISCONNECTED);
    });
    add_case(cases, "disconnect.free_with_requests", [] {
        couple pair;
        pair.join();
        for (DAT_UINT64 i = 0; i < 5; ++i)
            require_success(
                post_write(pair.active, pair.memory.piece(0, 8), pair.memory.target(page, 8), i));
        require_success(pair.active.handle.free());
        next_event(pair.passive.connection, DAT_CONNECTION_EVENT_DISCONNECTED);
    });
    add_case(cases, "disconnect.free_connecting", [] {
        couple pair;
        require_success(pair.call());
        const DAT_CR_HANDLE request = pair.request();
        require_success(pair.active.handle.free());
        dat_cr_reject(request, 0, nullptr); // whatever is said to that
    });
    add_case(cases, "disconnect.free_at_once", [] { // before anything can have happened
        for (int i = 0; i < 5; ++i) {
            couple pair;
            require_success(pair.call());
            require_success(pair.active.handle.free());
            // A request may have been under way.
            DAT_EVENT came{};
            DAT_COUNT more = 0;
            if (dat_evd_wait(pair.arrivals, dat_timeout(milliseconds(100)), 1, &came, &more) ==
                DAT_SUCCESS)
                dat_cr_reject(came.event_data.cr_arrival_event_data.cr_handle, 0, nullptr);
        }
    });
    add_case(cases, "disconnect.free_disconnecting", [] {
        couple pair;
        pair.join();
        require_success(dat_ep_disconnect(pair.active, graceful));
        require_success(pair.active.handle.free());
        next_event(pair.passive.connection, DAT_CONNECTION_EVENT_DISCONNECTED);
    });
    add_case(cases, "disconnect.free_disconnected", [] {
        couple pair;
        pair.join();
        pair.part();
        require_success(pair.active.handle.free());
        require_success(pair.passive.handle.free());
    });
    add_case(cases, "disconnect.free_at_both_ends", [] {
        couple pair;
        pair.join();
        require_success(pair.active.handle.free());
        require_success(pair.passive.handle.free());
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
        couple pair;
        require_success(connect(one, destination(pair.ia.address()), pair.port));
        require_success(dat_cr_accept(pair.request(), pair.passive, 0, nullptr));
        next_event(life, DAT_CONNECTION_EVENT_ESTABLISHED);
        next_event(pair.passive.connection, DAT_CONNECTION_EVENT_ESTABLISHED);
        expect_return(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
        next_event(pair.passive.connection, DAT_CONNECTION_EVENT_DISCONNECTED);
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
