// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "fixture.hpp"

#include <algorithm>
#include <cstdlib>
#include <random>

namespace hostile_peer {

bytes random_bytes(std::size_t count) {
    static std::mt19937 random(44);
    bytes result(count);
    for (std::byte &byte : result)
        byte = static_cast<std::byte>(random());
    return result;
}

hostile_fixture::hostile_fixture(const DAT_EP_ATTR *attr)
    : eps(attr) {
    const char *const missing = std::getenv("SOFTRDMA_MISSING_PATCHES");
    for (const std::string name :
         {"RDMA-siw-ignore-the-end-of-a-connection-that-is-not-accepted-yet",
          "RDMA-siw-report-private-data-only-if-it-was-received"})
        if (is_iwarp() && missing != nullptr &&
            std::string(missing).find(name) != std::string::npos)
            throw case_skipped{concat("the kernel was built without the patch ", name)};
}

void hostile_fixture::require_rxe() const {
    if (is_iwarp())
        throw case_skipped{"siw has no such step"};
}
void hostile_fixture::require_siw() const {
    if (!is_iwarp())
        throw case_skipped{"rxe has no such step"};
}

peer_process hostile_fixture::start_listening_peer(const action_list &actions,
                                                   const std::string &listen) {
    listener_port_ = conform::unused_port();
    action_list all = {listen};
    all += actions;
    return {eps.ia.ipv4_address(), listener_port_, all};
}

void hostile_fixture::connect_to_listening_peer(DAT_TIMEOUT timeout, source_location loc) {
    require_success(conform::connect_ep(eps.active, conform::ia_address(eps.ia.ipv4_address()),
                                        listener_port_, {}, timeout),
                    loc);
}

std::vector<DAT_CR_HANDLE> hostile_fixture::take_arrived_requests(DAT_EVD_HANDLE cr_evd,
                                                                  source_location loc) const {
    const bytes last_request_data = random_bytes(16);
    peer_process peer = start_connecting_peer(
        {"resolve", "qp", action_with_bytes("request", last_request_data), "end", "wait"});
    std::vector<DAT_CR_HANDLE> requests;
    for (;;) {
        const DAT_CR_HANDLE cr = next_event(cr_evd, DAT_CONNECTION_REQUEST_EVENT, loc)
                                     .event_data.cr_arrival_event_data.cr_handle;
        DAT_CR_PARAM param{};
        require_success(dat_cr_query(cr, DAT_CR_FIELD_ALL, &param), loc);
        if (static_cast<std::size_t>(param.private_data_size) >= last_request_data.size() &&
            std::equal(last_request_data.begin(), last_request_data.end(),
                       static_cast<const std::byte *>(param.private_data))) {
            require_success(dat_cr_reject(cr, 0, nullptr), loc);
            peer.wait_action_done("end", loc);
            return requests;
        }
        requests.push_back(cr);
    }
}

void hostile_fixture::accept_next_request(source_location loc) {
    require_success(dat_cr_accept(eps.next_cr(loc), eps.passive, 0, nullptr), loc);
}

void hostile_fixture::accept_and_establish(source_location loc) {
    accept_next_request(loc);
    next_event(eps.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED, loc);
}

DAT_EVENT hostile_fixture::expect_event(const test_ep &ep, event_numbers allowed,
                                        source_location loc) const {
    const DAT_EVENT event = next_event(ep.connect_evd, loc);
    require(std::find(allowed.begin(), allowed.end(), event.event_number) != allowed.end(),
            "the event is " + conform::to_string(event.event_number), loc);
    expect_eq(event.event_data.connect_event_data.ep_handle, ep, "the event's EP", loc);
    return event;
}

DAT_EVENT hostile_fixture::expect_last_event(const test_ep &ep, event_numbers allowed,
                                             source_location loc) const {
    const DAT_EVENT event = expect_event(ep, allowed, loc);
    ep.expect_state(DAT_EP_STATE_DISCONNECTED, loc);
    expect_no_event(ep.connect_evd, milliseconds(20), loc);
    return event;
}

void hostile_fixture::expect_accept_fails_or_ends(source_location loc) const {
    const DAT_EVENT event = expect_event(
        eps.passive,
        {DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR, DAT_CONNECTION_EVENT_ESTABLISHED}, loc);
    if (event.event_number == DAT_CONNECTION_EVENT_ESTABLISHED) {
        expect_last_event(eps.passive,
                          {DAT_CONNECTION_EVENT_DISCONNECTED, DAT_CONNECTION_EVENT_BROKEN}, loc);
        return;
    }
    eps.passive.expect_state(DAT_EP_STATE_DISCONNECTED, loc);
    expect_no_event(eps.passive.connect_evd, milliseconds(20), loc);
}

void hostile_fixture::post_receives(const test_ep &ep, unsigned count, std::size_t length,
                                    source_location loc) const {
    for (unsigned i = 0; i != count; ++i)
        require_success(conform::post_recv(ep, eps.lmr.make_lmr_triplet(i * length, length), i + 1),
                        loc);
}

void hostile_fixture::expect_completions(const test_ep &ep, const conform::unique_evd &evd,
                                         unsigned count,
                                         std::initializer_list<DAT_DTO_COMPLETION_STATUS> allowed,
                                         DAT_UINT64 first_cookie, source_location loc) const {
    for (DAT_UINT64 cookie = first_cookie; cookie != first_cookie + count; ++cookie) {
        const auto dto = conform::next_completion(evd, loc);
        expect_true(std::find(allowed.begin(), allowed.end(), dto.status) != allowed.end(),
                    concat("the status of ", cookie, " is ", conform::to_string(dto.status)), loc);
        expect_eq(dto.user_cookie.as_64, cookie, "the cookie", loc);
        expect_eq(dto.ep_handle, ep, "the EP", loc);
    }
}

namespace {

/// The asynchronous EVD may tell that one of the EPs failed, and nothing else.
void expect_no_other_async_event(const conform::ep_pair &eps, source_location loc) {
    for (DAT_EVENT event{}; dat_evd_dequeue(eps.ia.async_evd(), &event) == DAT_SUCCESS;) {
        const DAT_HANDLE handle = event.event_data.asynch_error_event_data.dat_handle;
        expect_true(event.event_number == DAT_ASYNC_ERROR_EP_BROKEN &&
                        (handle == eps.active || handle == eps.passive),
                    "the asynchronous event is " + conform::to_string(event.event_number), loc);
    }
}

} // namespace

void hostile_fixture::expect_service_unharmed(source_location loc) {
    for (const test_ep *ep : {&eps.active, &eps.passive}) {
        const scoped_trace trace(ep == &eps.active ? "active" : "passive");
        for (const conform::unique_evd *evd : {&ep->connect_evd, &ep->recv_evd, &ep->request_evd})
            expect_no_event(*evd, milliseconds(1), loc);
        if (ep->get_state(loc) != DAT_EP_STATE_UNCONNECTED) {
            ep->expect_state(DAT_EP_STATE_DISCONNECTED, loc);
            require_success(dat_ep_reset(*ep), loc);
        }
    }
    expect_no_event(eps.cr_evd, milliseconds(1), loc);
    expect_no_other_async_event(eps, loc);
    eps.connect(loc);
    eps.disconnect(loc);
    for (const test_ep *ep : {&eps.active, &eps.passive})
        require_success(dat_ep_reset(*ep), loc);
}

} // namespace hostile_peer
