// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Many connection requests.

#include "fixture.hpp"

#include <optional>
#include <thread>

namespace hostile_peer {

namespace {

constexpr int num_requests = 200, min_arrived = 100;
constexpr DAT_TIMEOUT poll_time = conform::dat_timeout(milliseconds(10)),
                      quiet_time = conform::dat_timeout(milliseconds(300));

/// The service point's EVD has room for eight. What it has no room for is rejected, with an
/// asynchronous event for each.
void test_small_evd() {
    hostile_fixture fixture;
    peer_process peer = fixture.start_peer({concat("flood=", num_requests), "flood_end", "wait"});
    peer.wait_action("flood");
    std::optional<std::string> ends;
    while (!(ends = peer.poll_action("flood_end"))) {
        DAT_EVENT event{};
        DAT_COUNT nmore = 0;
        if (dat_evd_wait(fixture.eps.cr_evd, poll_time, 1, &event, &nmore) != DAT_SUCCESS)
            continue;
        expect_eq(event.event_number, DAT_CONNECTION_REQUEST_EVENT, "the event");
        require_success(
            dat_cr_reject(event.event_data.cr_arrival_event_data.cr_handle, 0, nullptr));
    }
    if (!fixture.is_iwarp())
        expect_true(*ends == concat(num_requests, " RDMA_CM_EVENT_REJECTED"),
                    "the requests end by: " + *ends);
    peer.kill();
    for (DAT_EVENT event{}; dat_evd_dequeue(fixture.eps.ia.async_evd(), &event) == DAT_SUCCESS;) {
        expect_eq(event.event_number, DAT_ASYNC_ERROR_EVD_OVERFLOW, "the asynchronous event");
        expect_eq(event.event_data.asynch_error_event_data.dat_handle, fixture.eps.cr_evd,
                  "its handle");
    }
    fixture.expect_service();
}

/// Whether the state changes soon.
bool leaves_completion_pending(const test_ep &ep) {
    for (int i = 0; i != 100; ++i) {
        if (ep.get_state() != DAT_EP_STATE_COMPLETION_PENDING)
            return true;
        std::this_thread::sleep_for(milliseconds(1));
    }
    return false;
}

/// Ends in an event, and the EP can be used again. If rxe loses the REJ that the sender's kernel
/// sent for it, our kernel repeats the REP for 70 s before it reports the error: the consumer gives
/// up before.
void accept_from_killed_sender(const hostile_fixture &fixture, DAT_CR_HANDLE cr) {
    const test_ep &ep = fixture.eps.passive;
    require_success(dat_cr_accept(cr, ep, 0, nullptr));
    if (!leaves_completion_pending(ep)) {
        require_success(dat_ep_disconnect(ep, DAT_CLOSE_ABRUPT_FLAG));
        fixture.expect_event(
            ep, {DAT_CONNECTION_EVENT_DISCONNECTED, DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR});
    } else if (fixture
                   .expect_event(ep, {DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR,
                                      DAT_CONNECTION_EVENT_ESTABLISHED})
                   .event_number == DAT_CONNECTION_EVENT_ESTABLISHED) {
        fixture.expect_event(ep, {DAT_CONNECTION_EVENT_DISCONNECTED, DAT_CONNECTION_EVENT_BROKEN});
    }
    require_success(dat_ep_reset(ep));
}

/// Those that have arrived, or arrive soon. A later one is the PSP's, which is freed.
std::vector<DAT_CR_HANDLE> take_further_requests(DAT_EVD_HANDLE cr_evd) {
    std::vector<DAT_CR_HANDLE> requests;
    DAT_EVENT event{};
    DAT_COUNT nmore = 0;
    while (dat_evd_wait(cr_evd, quiet_time, 1, &event, &nmore) == DAT_SUCCESS)
        requests.push_back(event.event_data.cr_arrival_event_data.cr_handle);
    return requests;
}

/// The sender is gone when its requests are accepted: each accept ends in an event.
void test_killed_sender() {
    hostile_fixture fixture;
    fixture.eps.psp.free();
    const conform::unique_evd cr_evd = fixture.eps.ia.create_evd(DAT_EVD_CR_FLAG, num_requests + 1);
    {
        DAT_PSP_HANDLE handle = nullptr;
        require_success(dat_psp_create(fixture.eps.ia, fixture.eps.port, cr_evd,
                                       DAT_PSP_CONSUMER_FLAG, &handle));
        const conform::unique_psp psp(handle);
        peer_process peer = fixture.start_peer({concat("flood=", num_requests), "wait"});
        peer.wait_action("flood");
        std::vector<DAT_CR_HANDLE> requests;
        // rxe's kernel sends 128 before one is answered.
        while (requests.size() < min_arrived)
            requests.push_back(next_event(cr_evd, DAT_CONNECTION_REQUEST_EVENT)
                                   .event_data.cr_arrival_event_data.cr_handle);
        peer.kill();
        for (; !requests.empty(); requests = take_further_requests(cr_evd))
            for (const DAT_CR_HANDLE cr : requests)
                accept_from_killed_sender(fixture, cr);
    }
    DAT_PSP_HANDLE handle = nullptr;
    require_success(dat_psp_create(fixture.eps.ia, fixture.eps.port, fixture.eps.cr_evd,
                                   DAT_PSP_CONSUMER_FLAG, &handle));
    fixture.eps.psp = conform::unique_psp(handle);
    fixture.expect_service();
}

/// The peer connects and disconnects again and again.
void test_connect_and_disconnect() {
    hostile_fixture fixture;
    constexpr int num_connections = 50;
    action_list actions;
    for (int i = 0; i < num_connections; ++i)
        actions += {"resolve", "qp", "request", "established", "disconnect"};
    actions += {"end", "wait"};
    peer_process peer = fixture.start_peer(actions);
    for (int i = 0; i < num_connections; ++i) {
        const scoped_trace trace(concat("connection ", i));
        fixture.accept_peer();
        const DAT_EVENT event = fixture.expect_event(
            fixture.eps.passive,
            {DAT_CONNECTION_EVENT_ESTABLISHED, DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR});
        if (event.event_number == DAT_CONNECTION_EVENT_ESTABLISHED)
            fixture.expect_event(fixture.eps.passive,
                                 {DAT_CONNECTION_EVENT_DISCONNECTED, DAT_CONNECTION_EVENT_BROKEN});
        fixture.eps.passive.expect_state(DAT_EP_STATE_DISCONNECTED);
        require_success(dat_ep_reset(fixture.eps.passive));
    }
    peer.wait_action("end");
    peer.kill();
    fixture.expect_service();
}

} // namespace

void add_flood(case_list &cases) {
    add_case(cases, "flood.small_evd", test_small_evd);
    add_case(cases, "flood.sender_killed_before_accept", test_killed_sender);
    add_case(cases, "flood.connect_and_disconnect", test_connect_and_disconnect);
}

} // namespace hostile_peer
