// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Peers that are killed after each step of a connection.

#include "fixture.hpp"

namespace hostile_peer {

namespace {

constexpr DAT_DTO_COMPLETION_STATUS success = DAT_DTO_SUCCESS, flushed = DAT_DTO_ERR_FLUSHED;

/// Up to an established connection, as the active side.
const action_list established = {"resolve", "qp", "request", "established"};

/// These actions, more, and then to wait until it is killed.
action_list then_wait(action_list actions, const action_list &more = {}) {
    actions += more;
    actions += {"wait"};
    return actions;
}

void test_address_resolved() {
    hostile_fixture fixture;
    peer_process peer = fixture.start_connecting_peer({"resolve", "wait"});
    peer.wait_action_done("resolve");
    peer.kill();
    fixture.expect_service_unharmed();
}

/// siw's kernel keeps the process of an unanswered request for ten seconds, so it is not waited
/// for.
void kill_unanswered(const hostile_fixture &fixture, peer_process &peer) {
    if (fixture.is_iwarp())
        peer.send_sigkill();
    else
        peer.kill();
}

/// The request is in eps.cr_evd when the peer is killed, and is accepted or rejected then.
void test_answer_to_killed_peer(bool accepts) {
    hostile_fixture fixture;
    peer_process peer = fixture.start_connecting_peer({"resolve", "qp", "request", "wait"});
    peer.wait_action_done("request");
    const DAT_CR_HANDLE cr = fixture.eps.next_cr();
    kill_unanswered(fixture, peer);
    if (accepts) {
        require_success(dat_cr_accept(cr, fixture.eps.passive, 0, nullptr));
        fixture.expect_accept_fails_or_ends();
    } else {
        require_success(dat_cr_reject(cr, 0, nullptr));
    }
    peer.kill();
    fixture.expect_service_unharmed();
}

/// A PSP and its EVD are freed while a killed peer's request is in the EVD, and was not dequeued.
void test_free_psp_with_request() {
    hostile_fixture fixture;
    {
        const conform::unique_evd cr_evd = fixture.eps.ia.create_evd(DAT_EVD_CR_FLAG, 4);
        const DAT_CONN_QUAL port = conform::unused_port();
        DAT_PSP_HANDLE handle = nullptr;
        require_success(
            dat_psp_create(fixture.eps.ia, port, cr_evd, DAT_PSP_CONSUMER_FLAG, &handle));
        conform::unique_psp psp(handle);
        peer_process peer(fixture.eps.ia.ipv4_address(), port,
                          {"resolve", "qp", "request", "wait"});
        peer.wait_action_done("request");
        // Our kernel handles requests in order: after a later one this one has come, too.
        fixture.take_arrived_requests();
        kill_unanswered(fixture, peer);
        require_success(psp.free());
    }
    fixture.expect_service_unharmed();
}

/// The peer is killed when it has the REP, and has not sent the RTU.
void test_killed_before_rtu() {
    hostile_fixture fixture;
    fixture.require_rxe();
    peer_process peer =
        fixture.start_connecting_peer({"resolve", "qp_unknown_to_cma", "request", "reply", "wait"});
    fixture.accept_next_request();
    peer.wait_action_done("reply");
    peer.kill();
    fixture.expect_accept_fails_or_ends();
    fixture.expect_service_unharmed();
}

/// The receives are flushed, and the connection ends.
void test_established() {
    hostile_fixture fixture;
    const test_ep &ep = fixture.eps.passive;
    fixture.post_receives(ep, 4);
    peer_process peer = fixture.start_connecting_peer(then_wait(established));
    fixture.accept_and_establish();
    peer.wait_action_done("established");
    peer.kill();
    fixture.expect_completions(ep, ep.recv_evd, 4, {flushed});
    fixture.expect_last_event(ep);
    fixture.expect_service_unharmed();
}

/// Our EP sends after the peer is killed. The posts succeed; each completes, with success or an
/// error.
void test_sends_to_killed_peer() {
    hostile_fixture fixture;
    const test_ep &ep = fixture.eps.passive;
    fixture.post_receives(ep, 1);
    peer_process peer = fixture.start_connecting_peer(then_wait(established, {"send=1,64"}));
    fixture.accept_and_establish();
    fixture.expect_completions(ep, ep.recv_evd, 1, {success});
    peer.wait_action_done("send");
    peer.kill();
    for (DAT_UINT64 cookie = 1; cookie <= 8; ++cookie)
        require_success(conform::post_send(ep, fixture.eps.lmr.make_lmr_triplet(0, 64), cookie));
    fixture.expect_completions(ep, ep.request_evd, 8,
                               {success, flushed, DAT_DTO_ERR_TRANSPORT, DAT_DTO_ERR_REMOTE_ACCESS,
                                DAT_DTO_ERR_LOCAL_EP, DAT_DTO_ERR_RECEIVER_NOT_READY});
    fixture.expect_last_event(ep);
    fixture.expect_service_unharmed();
}

/// The peer is killed while it sends 60 messages. All receives complete, though the last message
/// may have come in part.
void test_sends_in_flight() {
    hostile_fixture fixture;
    const test_ep &ep = fixture.eps.passive;
    fixture.post_receives(ep, 7, 32768);
    peer_process peer = fixture.start_connecting_peer(then_wait(established, {"send=60,32768"}));
    fixture.accept_and_establish();
    peer.wait_action_done("send");
    peer.kill();
    fixture.expect_completions(ep, ep.recv_evd, 7, {success, flushed});
    fixture.expect_last_event(ep);
    fixture.expect_service_unharmed();
}

/// The peer is killed while it reads our memory.
void test_reads_in_flight() {
    hostile_fixture fixture;
    const test_ep &ep = fixture.eps.passive;
    const std::string source =
        concat(fixture.eps.lmr.address(), ",", fixture.eps.lmr.rmr_context());
    peer_process peer =
        fixture.start_connecting_peer(then_wait(established, {"read=60,131072," + source}));
    fixture.accept_and_establish();
    peer.wait_action_done("read");
    peer.kill();
    fixture.expect_last_event(ep);
    fixture.expect_service_unharmed();
}

/// The peer is killed after its DREQ, which our EP may not have answered.
void test_disconnect_begun() {
    hostile_fixture fixture;
    const test_ep &ep = fixture.eps.passive;
    fixture.post_receives(ep, 4);
    peer_process peer = fixture.start_connecting_peer(then_wait(established, {"disconnect"}));
    fixture.accept_and_establish();
    peer.wait_action_done("disconnect");
    peer.kill();
    fixture.expect_completions(ep, ep.recv_evd, 4, {flushed});
    fixture.expect_last_event(ep);
    fixture.expect_service_unharmed();
}

/// Accepts the peer, and returns its memory for RDMA. The peer sends first, as iWARP wants it, to
/// the receive that the caller has posted with cookie 1.
DAT_RMR_TRIPLET establish_and_get_peer_memory(hostile_fixture &fixture, peer_process &peer,
                                              DAT_SEG_LENGTH length) {
    const test_ep &ep = fixture.eps.passive;
    fixture.accept_and_establish();
    fixture.expect_completions(ep, ep.recv_evd, 1, {success});
    std::istringstream memory(peer.wait_action_done("memory"));
    DAT_RMR_TRIPLET triplet{};
    memory >> triplet.virtual_address >> triplet.rmr_context;
    triplet.segment_length = length;
    return triplet;
}

enum rdma_operation { write, read };
enum disconnect_mode { stay_connected, disconnect };

/// The peer is killed while our EP has 16 RDMA Reads or Writes in flight, and with `disconnect`,
/// its graceful disconnect waits for them. Each completes once, in order.
void test_our_rdma_in_flight(rdma_operation operation, disconnect_mode mode) {
    constexpr std::size_t length = 131072;
    hostile_fixture fixture;
    const test_ep &ep = fixture.eps.passive;
    fixture.post_receives(ep, 1);
    peer_process peer =
        fixture.start_connecting_peer(then_wait(established, {"send=1,64", "memory"}));
    const DAT_RMR_TRIPLET remote = establish_and_get_peer_memory(fixture, peer, length);
    for (DAT_UINT64 cookie = 1; cookie <= 16; ++cookie) {
        const DAT_LMR_TRIPLET local = fixture.eps.lmr.make_lmr_triplet(0, length);
        require_success(operation == read ? conform::post_rdma_read(ep, local, remote, cookie)
                                          : conform::post_rdma_write(ep, local, remote, cookie));
    }
    if (mode == disconnect)
        require_success(dat_ep_disconnect(ep, DAT_CLOSE_GRACEFUL_FLAG));
    peer.kill();
    fixture.expect_completions(ep, ep.request_evd, 16,
                               {success, flushed, DAT_DTO_ERR_TRANSPORT, DAT_DTO_ERR_REMOTE_ACCESS,
                                DAT_DTO_ERR_REMOTE_RESPONDER, DAT_DTO_ERR_LOCAL_EP});
    fixture.expect_last_event(ep);
    fixture.expect_service_unharmed();
}

constexpr std::initializer_list<DAT_EVENT_NUMBER> attempt_failed = {
    DAT_CONNECTION_EVENT_PEER_REJECTED,
    DAT_CONNECTION_EVENT_NON_PEER_REJECTED,
    DAT_CONNECTION_EVENT_UNREACHABLE,
    DAT_CONNECTION_EVENT_BROKEN,
};

/// Our EP connects to a listener that is killed after the last of these actions.
void test_listening_peer_killed_after(const action_list &actions) {
    hostile_fixture fixture;
    const test_ep &ep = fixture.eps.active;
    fixture.post_receives(ep, 2);
    peer_process peer = fixture.start_listening_peer(then_wait(actions));
    peer.wait_action_done("listen");
    fixture.connect_to_listening_peer();
    peer.wait_action_done(actions.back().substr(0, actions.back().find('=')));
    peer.kill();
    const DAT_EVENT event = fixture.expect_event(
        ep, {DAT_CONNECTION_EVENT_ESTABLISHED, DAT_CONNECTION_EVENT_PEER_REJECTED,
             DAT_CONNECTION_EVENT_NON_PEER_REJECTED, DAT_CONNECTION_EVENT_UNREACHABLE,
             DAT_CONNECTION_EVENT_BROKEN});
    if (event.event_number == DAT_CONNECTION_EVENT_ESTABLISHED) {
        // The only action is get_request: the peer did not accept.
        expect_true(actions.size() != 1, "established without the peer's consent");
        fixture.expect_last_event(ep);
    }
    fixture.expect_completions(ep, ep.recv_evd, 2, {success, flushed});
    expect_no_event(ep.connect_evd, milliseconds(20));
    fixture.expect_service_unharmed();
}

/// The listener is killed before our request.
void test_connect_to_killed_listener() {
    hostile_fixture fixture;
    peer_process peer = fixture.start_listening_peer({"wait"});
    peer.wait_action_done("listen");
    peer.kill();
    fixture.connect_to_listening_peer();
    fixture.expect_last_event(fixture.eps.active, attempt_failed);
    fixture.expect_service_unharmed();
}

} // namespace

void add_vanish(case_list &cases) {
    add_case(cases, "vanish.after_address_resolution", test_address_resolved);
    add_case(cases, "vanish.after_request_then_accept",
             [] { test_answer_to_killed_peer(/*accepts=*/true); });
    add_case(cases, "vanish.after_request_then_reject",
             [] { test_answer_to_killed_peer(/*accepts=*/false); });
    add_case(cases, "vanish.after_request_then_free", test_free_psp_with_request);
    add_case(cases, "vanish.after_reply", test_killed_before_rtu);
    add_case(cases, "vanish.when_established", test_established);
    add_case(cases, "vanish.before_our_sends", test_sends_to_killed_peer);
    add_case(cases, "vanish.sends_in_flight", test_sends_in_flight);
    add_case(cases, "vanish.reads_in_flight", test_reads_in_flight);
    add_case(cases, "vanish.disconnect_begun", test_disconnect_begun);
    add_case(cases, "vanish.our_writes_in_flight",
             [] { test_our_rdma_in_flight(write, stay_connected); });
    add_case(cases, "vanish.our_reads_in_flight",
             [] { test_our_rdma_in_flight(read, stay_connected); });
    add_case(cases, "vanish.while_graceful_disconnect_waits_for_writes",
             [] { test_our_rdma_in_flight(write, disconnect); });
    add_case(cases, "vanish.while_graceful_disconnect_waits_for_reads",
             [] { test_our_rdma_in_flight(read, disconnect); });
    add_case(cases, "vanish.listener_before_request", test_connect_to_killed_listener);
    add_case(cases, "vanish.listener_has_request",
             [] { test_listening_peer_killed_after({"get_request"}); });
    add_case(cases, "vanish.listener_has_replied", [] {
        test_listening_peer_killed_after({"get_request", "qp", "accept"});
    });
    add_case(cases, "vanish.listener_sends_in_flight", [] {
        test_listening_peer_killed_after(
            {"get_request", "qp", "accept", "established", "send=60,64"});
    });
    add_case(cases, "vanish.listener_disconnect_begun", [] {
        test_listening_peer_killed_after(
            {"get_request", "qp", "accept", "established", "disconnect"});
    });
    add_case(cases, "vanish.listener_established", [] {
        test_listening_peer_killed_after({"get_request", "qp", "accept", "established"});
    });
}

} // namespace hostile_peer
