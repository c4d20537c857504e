// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Peers that begin a connection and do not finish it, or send bytes that are no connection: over
// TCP to the port of a service point (siw), or over UDP to the port of RoCE (rxe).

#include "fixture.hpp"

#include <algorithm>

namespace hostile_peer {

namespace {

constexpr DAT_TIMEOUT short_timeout = conform::dat_timeout(milliseconds(500));

bytes to_bytes(const std::string &text) {
    const auto view = std::as_bytes(std::span(text));
    return {view.begin(), view.end()};
}
bytes mpa_frame(const std::string &key, unsigned flags, unsigned revision, unsigned length) {
    bytes frame = to_bytes(key);
    for (const unsigned value : {flags, revision, length >> 8, length & 0xff})
        frame.push_back(static_cast<std::byte>(value));
    return frame;
}
const std::string request_key = "MPA ID Req Frame", reply_key = "MPA ID Rep Frame";
bytes valid_request() {
    return mpa_frame(request_key, 0, 1, 0);
}

/// A TCP client that sends this, is silent, and then closes: no request of it arrives.
void test_no_request(const std::vector<bytes> &sent) {
    hostile_fixture fixture;
    fixture.require_siw();
    for (const bytes &data : sent) {
        const scoped_trace trace(concat(data.size(), " bytes"));
        peer_process peer =
            fixture.start_peer({"tcp", with_bytes("tcp_send", data), "wait", "tcp_close", "wait"});
        peer.wait_action("tcp_send");
        fixture.expect_service();
        peer.resume();
        peer.wait_action("tcp_close");
        fixture.expect_service();
    }
}

std::vector<bytes> random_streams() {
    std::vector<bytes> result;
    for (const std::size_t length : {1U, 19U, 20U, 21U, 1000U, 20000U})
        result.push_back(random_bytes(length));
    return result;
}
/// The same as replies without private data.
std::vector<bytes> random_replies() {
    std::vector<bytes> result = random_streams();
    for (bytes &reply : result)
        for (std::size_t i = 18; i < std::min<std::size_t>(reply.size(), 20); ++i)
            reply[i] = std::byte{0};
    return result;
}
std::vector<bytes> truncated_requests() {
    std::vector<bytes> result;
    const bytes request = mpa_frame(request_key, 0, 1, 8);
    for (const std::size_t length : {1U, 15U, 16U, 19U, 20U})
        result.emplace_back(request.begin(), request.begin() + static_cast<std::ptrdiff_t>(length));
    return result;
}
std::vector<bytes> malformed_requests() {
    return {
        mpa_frame(request_key, 0, 7, 0),      // a revision that does not exist
        mpa_frame(reply_key, 0, 1, 0),        // a reply
        mpa_frame(request_key, 0, 1, 0xffff), // with private data that does not follow
    };
}

std::vector<bytes> malformed_replies() {
    constexpr unsigned enhanced = 0x10; // the flag of revision 2, which siw requests
    std::vector<bytes> result = {
        mpa_frame(reply_key, 0, 7, 8),          // a revision that does not exist
        mpa_frame(request_key, enhanced, 2, 8), // a request
        mpa_frame(reply_key, enhanced, 2, 0),   // without the read limits
        mpa_frame(reply_key, enhanced, 2, 2),   // with half of them
        mpa_frame(reply_key, enhanced, 2, 513), // longer than MPA permits
        mpa_frame(reply_key, enhanced, 2, 0xffff),
    };
    for (bytes &reply : result)
        reply.resize(reply.size() + std::to_integer<std::size_t>(reply.back()));
    return result;
}

/// TCP clients that close their connection, or reset it, before siw has accepted it.
void test_client_closes_at_once() {
    hostile_fixture fixture;
    fixture.require_siw();
    constexpr unsigned num_connections = 50;
    for (const std::string close : {"tcp_close", "tcp_reset"}) {
        const scoped_trace trace(close);
        action_list actions;
        for (unsigned i = 0; i != num_connections; ++i)
            actions += {"tcp", close};
        actions += {"wait"};
        peer_process peer = fixture.start_peer(actions);
        for (unsigned i = 0; i != num_connections; ++i)
            peer.wait_action(close);
        fixture.expect_service();
    }
}

/// A request that arrives, and its sender closes. It may be accepted, and fails then.
void test_request_then_close() {
    hostile_fixture fixture;
    fixture.require_siw();
    for (const bool kills : {false, true}) {
        peer_process peer =
            fixture.start_peer({"tcp", "wait", with_bytes("tcp_send", valid_request()),
                                kills ? "wait" : "tcp_close", "wait"});
        peer.wait_action("tcp");
        fixture.expect_service();
        peer.resume();
        peer.wait_action(kills ? "tcp_send" : "tcp_close");
        if (kills)
            peer.kill();
        const auto requests = fixture.take_requests();
        require(requests.size() <= 1, "one request arrives twice"); // the kernel may drop it
        for (const DAT_CR_HANDLE cr : requests) {
            require_success(dat_cr_accept(cr, fixture.eps.passive, 0, nullptr));
            fixture.expect_accept_fails_or_ends();
        }
        fixture.expect_service();
    }
}

void test_random_bytes_when_established() {
    hostile_fixture fixture;
    fixture.require_siw();
    const test_ep &ep = fixture.eps.passive;
    for (const std::size_t length : {1U, 20U, 3000U, 60000U}) {
        const scoped_trace trace(concat(length, " bytes"));
        fixture.post_receives(ep, 2, 4096);
        peer_process peer =
            fixture.start_peer({"tcp", with_bytes("tcp_send", valid_request()), "tcp_receive",
                                with_bytes("tcp_send", random_bytes(length)), "tcp_close", "wait"});
        fixture.establish_peer();
        peer.wait_action("tcp_close");
        fixture.expect_completions(ep, ep.recv_evd, 2,
                                   {DAT_DTO_ERR_FLUSHED, DAT_DTO_ERR_LOCAL_LENGTH,
                                    DAT_DTO_ERR_LOCAL_EP, DAT_DTO_ERR_LOCAL_PROTECTION});
        fixture.expect_end(ep);
        fixture.expect_service();
    }
}

/// A TCP server that answers our request with this, and then is silent or closes. Nothing of such
/// a reply is private data.
void test_server(const bytes &reply, bool closes, event_numbers allowed) {
    hostile_fixture fixture;
    fixture.require_siw();
    action_list actions = {"tcp_accept"};
    if (!reply.empty())
        actions += {"tcp_receive", with_bytes("tcp_send", reply)};
    if (closes)
        actions += {"tcp_close"};
    actions += {"wait"};
    peer_process peer = fixture.start_listener(actions, "tcp_listen");
    peer.wait_action("tcp_listen");
    fixture.connect_to_listener(short_timeout);
    const DAT_EVENT event = fixture.expect_end(fixture.eps.active, allowed);
    expect_eq(event.event_data.connect_event_data.private_data_size, 0, "the private data's size");
    fixture.expect_service(); // while the kernel keeps the attempt
    peer.kill();
    fixture.expect_service();
}

constexpr std::initializer_list<DAT_EVENT_NUMBER> attempt_failed = {
    DAT_CONNECTION_EVENT_PEER_REJECTED, DAT_CONNECTION_EVENT_NON_PEER_REJECTED,
    DAT_CONNECTION_EVENT_UNREACHABLE,   DAT_CONNECTION_EVENT_TIMED_OUT,
    DAT_CONNECTION_EVENT_BROKEN,
};

void add_tcp_cases(case_list &cases) {
    add_case(cases, "half_open.silent_tcp_client", [] { test_no_request({{}}); });
    add_case(cases, "half_open.random_bytes", [] { test_no_request(random_streams()); });
    add_case(cases, "half_open.truncated_mpa_request",
             [] { test_no_request(truncated_requests()); });
    add_case(cases, "half_open.malformed_mpa_request",
             [] { test_no_request(malformed_requests()); });
    add_case(cases, "half_open.mpa_request_then_close", test_request_then_close);
    add_case(cases, "half_open.random_bytes_when_established", test_random_bytes_when_established);
    add_case(cases, "half_open.silent_tcp_server",
             [] { test_server({}, false, {DAT_CONNECTION_EVENT_TIMED_OUT}); });
    add_case(cases, "half_open.tcp_server_closes", [] { test_server({}, true, attempt_failed); });
    add_case(cases, "half_open.random_reply", [] {
        for (const bytes &reply : random_replies())
            test_server(reply, false, attempt_failed);
    });
    add_case(cases, "half_open.random_reply_with_length", [] {
        for (const bytes &reply : random_streams())
            test_server(reply, false, attempt_failed);
    });
    add_case(cases, "half_open.malformed_mpa_reply", [] {
        for (const bytes &reply : malformed_replies())
            test_server(reply, false, attempt_failed);
    });
    add_case(cases, "half_open.tcp_client_closes_at_once", test_client_closes_at_once);
    add_case(cases, "half_open.truncated_mpa_reply_then_close", [] {
        const bytes reply = mpa_frame(reply_key, 0, 1, 8);
        test_server({reply.begin(), reply.end() - 3}, true, attempt_failed);
        test_server(reply, true, attempt_failed);
    });
}

const action_list without_rtu = {"resolve", "unready_qp", "request", "reply"};

/// The peer gets the REP and does not answer; this side gives up.
void test_no_rtu() {
    hostile_fixture fixture;
    fixture.require_rxe();
    action_list actions = without_rtu;
    actions += {"wait"};
    peer_process peer = fixture.start_peer(actions);
    fixture.accept_peer();
    peer.wait_action("reply");
    const test_ep &ep = fixture.eps.passive;
    expect_no_event(ep.connect_evd, milliseconds(100));
    ep.expect_state(DAT_EP_STATE_COMPLETION_PENDING);
    require_success(dat_ep_disconnect(ep, DAT_CLOSE_ABRUPT_FLAG));
    fixture.expect_end(ep, {DAT_CONNECTION_EVENT_DISCONNECTED});
    fixture.expect_service(); // beside it
    peer.kill();
    fixture.expect_service();
}

/// The EP is freed while it waits for the RTU.
void test_no_rtu_and_free() {
    hostile_fixture fixture;
    fixture.require_rxe();
    action_list actions = without_rtu;
    actions += {"wait"};
    peer_process peer = fixture.start_peer(actions);
    {
        const test_ep ep(fixture.eps.ia, fixture.eps.pz);
        require_success(dat_cr_accept(fixture.eps.next_cr(), ep, 0, nullptr));
        peer.wait_action("reply");
    }
    peer.kill();
    fixture.expect_service();
}

/// The peer sends messages without an RTU. They arrive; the kernel decides whether the connection
/// counts as established (rxe raises no IBV_EVENT_COMM_EST).
void test_messages_without_rtu() {
    hostile_fixture fixture;
    fixture.require_rxe();
    const test_ep &ep = fixture.eps.passive;
    fixture.post_receives(ep, 3);
    action_list actions = without_rtu;
    actions += {"ready", "send=2,64", "completions=2", "wait"};
    peer_process peer = fixture.start_peer(actions);
    fixture.accept_peer();
    fixture.expect_completions(ep, ep.recv_evd, 2, {DAT_DTO_SUCCESS});
    peer.wait_action("completions");
    peer.kill();
    fixture.expect_completions(ep, ep.recv_evd, 1, {DAT_DTO_ERR_FLUSHED}, 3);
    fixture.expect_accept_fails_or_ends();
    fixture.expect_service();
}

/// A peer at rdma_cm that does not answer our request.
void test_silent_listener() {
    hostile_fixture fixture;
    peer_process peer = fixture.start_listener({"get_request", "wait"});
    peer.wait_action("listen");
    fixture.connect_to_listener(short_timeout);
    fixture.expect_end(fixture.eps.active, {DAT_CONNECTION_EVENT_TIMED_OUT});
    fixture.expect_service(); // beside it
    peer.kill();
    fixture.expect_service();
}

/// Packets for rxe of which none is of a connection, beside connections.
void test_random_packets() {
    hostile_fixture fixture;
    fixture.require_rxe();
    peer_process peer = fixture.start_peer({"udp=500", "wait", "udp=500", "wait"});
    fixture.eps.connect();
    peer.wait_action("udp");
    peer.resume();
    peer.wait_action("udp");
    peer.kill();
    fixture.eps.disconnect();
    fixture.expect_service();
}

} // namespace

void add_half_open(case_list &cases) {
    add_tcp_cases(cases);
    add_case(cases, "half_open.silent_listener", test_silent_listener);
    add_case(cases, "half_open.no_rtu", test_no_rtu);
    add_case(cases, "half_open.no_rtu_and_free", test_no_rtu_and_free);
    add_case(cases, "half_open.messages_without_rtu", test_messages_without_rtu);
    add_case(cases, "half_open.random_packets", test_random_packets);
}

} // namespace hostile_peer
