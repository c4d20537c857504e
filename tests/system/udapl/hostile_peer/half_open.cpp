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
/// The header of an MPA request or reply; `length` is that of the private data, which is not
/// appended.
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

/// A TCP client sends one of these, is silent, and then closes. That is no MPA request: the
/// consumer gets no event, and the PSP serves others while the client is silent, and afterwards.
void test_service_beside_bytes_without_request(const std::vector<bytes> &sent) {
    hostile_fixture fixture;
    fixture.require_siw();
    for (const bytes &data : sent) {
        const scoped_trace trace(concat(data.size(), " bytes"));
        peer_process peer = fixture.start_connecting_peer(
            {"tcp", action_with_bytes("tcp_send", data), "wait", "tcp_close", "wait"});
        peer.wait_action_done("tcp_send");
        fixture.expect_service_unharmed();
        peer.end_wait_action();
        peer.wait_action_done("tcp_close");
        fixture.expect_service_unharmed();
    }
}

/// Of lengths around that of an MPA header, 20 bytes, and longer.
std::vector<bytes> random_streams() {
    std::vector<bytes> result;
    for (const std::size_t length : {1U, 19U, 20U, 21U, 1000U, 20000U})
        result.push_back(random_bytes(length));
    return result;
}
/// The same, with the length of an MPA reply's private data, bytes 18 and 19, set to 0.
std::vector<bytes> random_replies_without_private_data() {
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

/// Each with as many bytes after the header as the low byte of its length says, 255 for 0xffff.
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

/// 50 TCP clients connect and close their connection, or reset it, at once: siw may not have
/// accepted it.
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
        peer_process peer = fixture.start_connecting_peer(actions);
        for (unsigned i = 0; i != num_connections; ++i)
            peer.wait_action_done(close);
        fixture.expect_service_unharmed();
    }
}

/// A TCP client sends a valid MPA request and closes, or is killed. The request may have come;
/// accepting it ends in an event.
void test_request_then_close() {
    hostile_fixture fixture;
    fixture.require_siw();
    for (const bool kill_peer : {false, true}) {
        peer_process peer = fixture.start_connecting_peer(
            {"tcp", "wait", action_with_bytes("tcp_send", valid_request()),
             kill_peer ? "wait" : "tcp_close", "wait"});
        peer.wait_action_done("tcp");
        fixture.expect_service_unharmed();
        peer.end_wait_action();
        peer.wait_action_done(kill_peer ? "tcp_send" : "tcp_close");
        if (kill_peer)
            peer.kill();
        const auto requests = fixture.take_arrived_requests();
        require(requests.size() <= 1, "one request arrives twice"); // none: the kernel dropped it
        for (const DAT_CR_HANDLE cr : requests) {
            require_success(dat_cr_accept(cr, fixture.eps.passive, 0, nullptr));
            fixture.expect_accept_fails_or_ends();
        }
        fixture.expect_service_unharmed();
    }
}

/// A TCP client connects as MPA wants it, then sends bytes that are no DDP segment: the connection
/// ends, and the receives complete with an error.
void test_random_bytes_when_established() {
    hostile_fixture fixture;
    fixture.require_siw();
    const test_ep &ep = fixture.eps.passive;
    for (const std::size_t length : {1U, 20U, 3000U, 60000U}) {
        const scoped_trace trace(concat(length, " bytes"));
        fixture.post_receives(ep, 2, 4096);
        peer_process peer = fixture.start_connecting_peer(
            {"tcp", action_with_bytes("tcp_send", valid_request()), "tcp_receive",
             action_with_bytes("tcp_send", random_bytes(length)), "tcp_close", "wait"});
        fixture.accept_and_establish();
        peer.wait_action_done("tcp_close");
        fixture.expect_completions(ep, ep.recv_evd, 2,
                                   {DAT_DTO_ERR_FLUSHED, DAT_DTO_ERR_LOCAL_LENGTH,
                                    DAT_DTO_ERR_LOCAL_EP, DAT_DTO_ERR_LOCAL_PROTECTION});
        fixture.expect_last_event(ep);
        fixture.expect_service_unharmed();
    }
}

/// eps.active connects to a TCP server, which answers the MPA request with these bytes (with none:
/// does not read it), and then closes or is silent: the attempt ends in one of these events,
/// without private data.
void test_attempt_fails_at_tcp_server(const bytes &reply, bool server_closes,
                                      event_numbers allowed) {
    hostile_fixture fixture;
    fixture.require_siw();
    action_list actions = {"tcp_accept"};
    if (!reply.empty())
        actions += {"tcp_receive", action_with_bytes("tcp_send", reply)};
    if (server_closes)
        actions += {"tcp_close"};
    actions += {"wait"};
    peer_process peer = fixture.start_listening_peer(actions, "tcp_listen");
    peer.wait_action_done("tcp_listen");
    fixture.connect_to_listening_peer(short_timeout);
    const DAT_EVENT event = fixture.expect_last_event(fixture.eps.active, allowed);
    expect_eq(event.event_data.connect_event_data.private_data_size, 0, "the private data's size");
    fixture.expect_service_unharmed(); // while siw's kernel still has the connection
    peer.kill();
    fixture.expect_service_unharmed();
}

constexpr std::initializer_list<DAT_EVENT_NUMBER> attempt_failed = {
    DAT_CONNECTION_EVENT_PEER_REJECTED, DAT_CONNECTION_EVENT_NON_PEER_REJECTED,
    DAT_CONNECTION_EVENT_UNREACHABLE,   DAT_CONNECTION_EVENT_TIMED_OUT,
    DAT_CONNECTION_EVENT_BROKEN,
};

void add_tcp_cases(case_list &cases) {
    add_case(cases, "half_open.silent_tcp_client",
             [] { test_service_beside_bytes_without_request({{}}); });
    add_case(cases, "half_open.random_bytes",
             [] { test_service_beside_bytes_without_request(random_streams()); });
    add_case(cases, "half_open.truncated_mpa_request",
             [] { test_service_beside_bytes_without_request(truncated_requests()); });
    add_case(cases, "half_open.malformed_mpa_request",
             [] { test_service_beside_bytes_without_request(malformed_requests()); });
    add_case(cases, "half_open.mpa_request_then_close", test_request_then_close);
    add_case(cases, "half_open.random_bytes_when_established", test_random_bytes_when_established);
    add_case(cases, "half_open.silent_tcp_server", [] {
        test_attempt_fails_at_tcp_server({}, /*server_closes=*/false,
                                         {DAT_CONNECTION_EVENT_TIMED_OUT});
    });
    add_case(cases, "half_open.tcp_server_closes",
             [] { test_attempt_fails_at_tcp_server({}, /*server_closes=*/true, attempt_failed); });
    add_case(cases, "half_open.random_reply", [] {
        for (const bytes &reply : random_replies_without_private_data())
            test_attempt_fails_at_tcp_server(reply, /*server_closes=*/false, attempt_failed);
    });
    add_case(cases, "half_open.random_reply_with_length", [] {
        for (const bytes &reply : random_streams())
            test_attempt_fails_at_tcp_server(reply, /*server_closes=*/false, attempt_failed);
    });
    add_case(cases, "half_open.malformed_mpa_reply", [] {
        for (const bytes &reply : malformed_replies())
            test_attempt_fails_at_tcp_server(reply, /*server_closes=*/false, attempt_failed);
    });
    add_case(cases, "half_open.tcp_client_closes_at_once", test_client_closes_at_once);
    add_case(cases, "half_open.truncated_mpa_reply_then_close", [] {
        const bytes reply = mpa_frame(reply_key, 0, 1, 8);
        test_attempt_fails_at_tcp_server({reply.begin(), reply.end() - 3}, /*server_closes=*/true,
                                         attempt_failed);
        test_attempt_fails_at_tcp_server(reply, /*server_closes=*/true, attempt_failed);
    });
}

/// rxe: the peer has the REP and sends no RTU for it.
const action_list without_rtu = {"resolve", "qp_unknown_to_cma", "request", "reply"};

/// The peer does not answer the REP. The EP stays in COMPLETION_PENDING; an abrupt disconnect ends
/// that.
void test_disconnect_while_rtu_is_missing() {
    hostile_fixture fixture;
    fixture.require_rxe();
    action_list actions = without_rtu;
    actions += {"wait"};
    peer_process peer = fixture.start_connecting_peer(actions);
    fixture.accept_next_request();
    peer.wait_action_done("reply");
    const test_ep &ep = fixture.eps.passive;
    expect_no_event(ep.connect_evd, milliseconds(100));
    ep.expect_state(DAT_EP_STATE_COMPLETION_PENDING);
    require_success(dat_ep_disconnect(ep, DAT_CLOSE_ABRUPT_FLAG));
    fixture.expect_last_event(ep, {DAT_CONNECTION_EVENT_DISCONNECTED});
    fixture.expect_service_unharmed(); // while the peer's connection is half open
    peer.kill();
    fixture.expect_service_unharmed();
}

/// The EP is freed in COMPLETION_PENDING, while it waits for the RTU.
void test_free_while_rtu_is_missing() {
    hostile_fixture fixture;
    fixture.require_rxe();
    action_list actions = without_rtu;
    actions += {"wait"};
    peer_process peer = fixture.start_connecting_peer(actions);
    {
        const test_ep ep(fixture.eps.ia, fixture.eps.pz);
        require_success(dat_cr_accept(fixture.eps.next_cr(), ep, 0, nullptr));
        peer.wait_action_done("reply");
    }
    peer.kill();
    fixture.expect_service_unharmed();
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
    peer_process peer = fixture.start_connecting_peer(actions);
    fixture.accept_next_request();
    fixture.expect_completions(ep, ep.recv_evd, 2, {DAT_DTO_SUCCESS});
    peer.wait_action_done("completions");
    peer.kill();
    fixture.expect_completions(ep, ep.recv_evd, 1, {DAT_DTO_ERR_FLUSHED}, 3 /* first cookie */);
    fixture.expect_accept_fails_or_ends();
    fixture.expect_service_unharmed();
}

/// A peer listens by rdma_cm and does not answer our request: it ends in TIMED_OUT.
void test_silent_listener() {
    hostile_fixture fixture;
    peer_process peer = fixture.start_listening_peer({"get_request", "wait"});
    peer.wait_action_done("listen");
    fixture.connect_to_listening_peer(short_timeout);
    fixture.expect_last_event(fixture.eps.active, {DAT_CONNECTION_EVENT_TIMED_OUT});
    fixture.expect_service_unharmed(); // while the peer has the request
    peer.kill();
    fixture.expect_service_unharmed();
}

/// The peer sends random UDP packets to rxe's port while our EPs connect, and while they are
/// connected: these lose nothing.
void test_random_packets() {
    hostile_fixture fixture;
    fixture.require_rxe();
    peer_process peer = fixture.start_connecting_peer({"udp=500", "wait", "udp=500", "wait"});
    fixture.eps.connect();
    peer.wait_action_done("udp");
    peer.end_wait_action();
    peer.wait_action_done("udp");
    peer.kill();
    fixture.eps.disconnect();
    fixture.expect_service_unharmed();
}

} // namespace

void add_half_open(case_list &cases) {
    add_tcp_cases(cases);
    add_case(cases, "half_open.silent_listener", test_silent_listener);
    add_case(cases, "half_open.no_rtu", test_disconnect_while_rtu_is_missing);
    add_case(cases, "half_open.no_rtu_and_free", test_free_while_rtu_is_missing);
    add_case(cases, "half_open.messages_without_rtu", test_messages_without_rtu);
    add_case(cases, "half_open.random_packets", test_random_packets);
}

} // namespace hostile_peer
