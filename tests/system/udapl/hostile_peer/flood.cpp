// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Many connection requests.

#include "fixture.hpp"

#include <optional>
#include <thread>

namespace hostile_peer {

namespace {

constexpr int num_requests = 200;
constexpr int min_arrived = 100; ///< of num_requests, before the sender is killed
constexpr DAT_TIMEOUT poll_time = conform::dat_timeout(milliseconds(10)),
                      quiet_time = conform::dat_timeout(milliseconds(300));

/// 200 requests come, and the PSP's EVD, eps.cr_evd, has room for eight. The consumer rejects those
/// that it finds there; the provider rejects the others, and reports each by an asynchronous event.
/// So on rxe all of them end as rejected.
void test_more_requests_than_cr_evd_holds() {
    hostile_fixture fixture;
    peer_process peer =
        fixture.start_connecting_peer({concat("flood=", num_requests), "flood_end", "wait"});
    peer.wait_action_done("flood");
    std::optional<std::string> ends;
    while (!(ends = peer.poll_action_done("flood_end"))) {
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
    fixture.expect_service_unharmed();
}

/// Whether the EP of an accepted request changes its state within 100 ms.
bool leaves_completion_pending(const test_ep &ep) {
    for (int i = 0; i != 100; ++i) {
        if (ep.get_state() != DAT_EP_STATE_COMPLETION_PENDING)
            return true;
        std::this_thread::sleep_for(milliseconds(1));
    }
    return false;
}

/// Accepting a request of a killed process ends in an event, and the EP can be used again. If rxe
/// loses the REJ that the sender's kernel sent for it, our kernel repeats the REP for 70 s before
/// it reports the error: the consumer gives up before.
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

/// The requests that have arrived, or arrive with less than quiet_time between them. One that
/// arrives later is freed with the PSP.
std::vector<DAT_CR_HANDLE> take_further_requests(DAT_EVD_HANDLE cr_evd) {
    std::vector<DAT_CR_HANDLE> requests;
    DAT_EVENT event{};
    DAT_COUNT nmore = 0;
    while (dat_evd_wait(cr_evd, quiet_time, 1, &event, &nmore) == DAT_SUCCESS)
        requests.push_back(event.event_data.cr_arrival_event_data.cr_handle);
    return requests;
}

/// The peer is killed after its 200 requests, at least 100 of which have come. Each accept ends in
/// an event. An EVD with room for all of them takes the place of eps.cr_evd meanwhile.
void test_killed_sender() {
    hostile_fixture fixture;
    fixture.eps.psp.free();
    const conform::unique_evd cr_evd = fixture.eps.ia.create_evd(DAT_EVD_CR_FLAG, num_requests + 1);
    {
        DAT_PSP_HANDLE handle = nullptr;
        require_success(dat_psp_create(fixture.eps.ia, fixture.eps.port, cr_evd,
                                       DAT_PSP_CONSUMER_FLAG, &handle));
        const conform::unique_psp psp(handle);
        peer_process peer = fixture.start_connecting_peer({concat("flood=", num_requests), "wait"});
        peer.wait_action_done("flood");
        std::vector<DAT_CR_HANDLE> requests;
        // rxe's kernel sends 128 before it waits for an answer: more do not come.
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
    fixture.expect_service_unharmed();
}

/// The peer connects and disconnects at once, 50 times. Each accept ends in an event (the
/// disconnect may come before ESTABLISHED), and the EP can be used again.
void test_connect_and_disconnect() {
    hostile_fixture fixture;
    constexpr int num_connections = 50;
    action_list actions;
    for (int i = 0; i < num_connections; ++i)
        actions += {"resolve", "qp", "request", "established", "disconnect"};
    actions += {"end", "wait"};
    peer_process peer = fixture.start_connecting_peer(actions);
    for (int i = 0; i < num_connections; ++i) {
        const scoped_trace trace(concat("connection ", i));
        fixture.accept_next_request();
        const DAT_EVENT event = fixture.expect_event(
            fixture.eps.passive,
            {DAT_CONNECTION_EVENT_ESTABLISHED, DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR});
        if (event.event_number == DAT_CONNECTION_EVENT_ESTABLISHED)
            fixture.expect_event(fixture.eps.passive,
                                 {DAT_CONNECTION_EVENT_DISCONNECTED, DAT_CONNECTION_EVENT_BROKEN});
        fixture.eps.passive.expect_state(DAT_EP_STATE_DISCONNECTED);
        require_success(dat_ep_reset(fixture.eps.passive));
    }
    peer.wait_action_done("end");
    peer.kill();
    fixture.expect_service_unharmed();
}

} // namespace

void add_flood(case_list &cases) {
    add_case(cases, "flood.small_evd", test_more_requests_than_cr_evd_holds);
    add_case(cases, "flood.sender_killed_before_accept", test_killed_sender);
    add_case(cases, "flood.connect_and_disconnect", test_connect_and_disconnect);
}

} // namespace hostile_peer
