// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Peers that are killed after each step of a connection.

#include "fixture.hpp"

namespace hostile_peer {

namespace {

constexpr DAT_DTO_COMPLETION_STATUS success = DAT_DTO_SUCCESS, flushed = DAT_DTO_ERR_FLUSHED;

const action_list established = {"resolve", "qp", "request", "established"};

action_list after(action_list actions, const action_list &more) {
    actions += more;
    actions += {"wait"};
    return actions;
}

void test_address_resolved() {
    hostile_fixture fixture;
    peer_process peer = fixture.start_peer({"resolve", "wait"});
    peer.wait_action("resolve");
    peer.kill();
    fixture.expect_service();
}

/// siw's kernel keeps the process of an unanswered request for ten seconds, so it is not waited
/// for.
void kill_unanswered(const hostile_fixture &fixture, peer_process &peer) {
    if (fixture.is_iwarp())
        peer.send_sigkill();
    else
        peer.kill();
}

/// The request is there, and is answered after the kill.
void test_request(bool accepts) {
    hostile_fixture fixture;
    peer_process peer = fixture.start_peer({"resolve", "qp", "request", "wait"});
    peer.wait_action("request");
    const DAT_CR_HANDLE cr = fixture.eps.next_cr();
    kill_unanswered(fixture, peer);
    if (accepts) {
        require_success(dat_cr_accept(cr, fixture.eps.passive, 0, nullptr));
        fixture.expect_accept_fails_or_ends();
    } else {
        require_success(dat_cr_reject(cr, 0, nullptr));
    }
    peer.kill();
    fixture.expect_service();
}

/// Nothing of the request is ever looked at; the PSP and its EVD are freed.
void test_request_and_free() {
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
        peer.wait_action("request");
        fixture.take_requests(); // The kernel has handled this one.
        kill_unanswered(fixture, peer);
        require_success(psp.free());
    }
    fixture.expect_service();
}

/// The peer has the REP, and has not sent the RTU.
void test_reply() {
    hostile_fixture fixture;
    fixture.require_rxe();
    peer_process peer = fixture.start_peer({"resolve", "unready_qp", "request", "reply", "wait"});
    fixture.accept_peer();
    peer.wait_action("reply");
    peer.kill();
    fixture.expect_accept_fails_or_ends();
    fixture.expect_service();
}

void test_established() {
    hostile_fixture fixture;
    const test_ep &ep = fixture.eps.passive;
    fixture.post_receives(ep, 4);
    peer_process peer = fixture.start_peer(after(established, {}));
    fixture.establish_peer();
    peer.wait_action("established");
    peer.kill();
    fixture.expect_completions(ep, ep.recv_evd, 4, {flushed});
    fixture.expect_end(ep);
    fixture.expect_service();
}

/// Our Sends to an EP whose peer is gone: accepted, then flushed.
void test_sends_to_the_gone() {
    hostile_fixture fixture;
    const test_ep &ep = fixture.eps.passive;
    fixture.post_receives(ep, 1);
    peer_process peer = fixture.start_peer(after(established, {"send=1,64"}));
    fixture.establish_peer();
    fixture.expect_completions(ep, ep.recv_evd, 1, {success});
    peer.wait_action("send");
    peer.kill();
    for (DAT_UINT64 cookie = 1; cookie <= 8; ++cookie)
        require_success(conform::post_send(ep, fixture.eps.lmr.make_lmr_triplet(0, 64), cookie));
    fixture.expect_completions(ep, ep.request_evd, 8,
                               {success, flushed, DAT_DTO_ERR_TRANSPORT, DAT_DTO_ERR_REMOTE_ACCESS,
                                DAT_DTO_ERR_LOCAL_EP, DAT_DTO_ERR_RECEIVER_NOT_READY});
    fixture.expect_end(ep);
    fixture.expect_service();
}

/// A part of the peer's messages has come, and the last may be cut off.
void test_sends_in_flight() {
    hostile_fixture fixture;
    const test_ep &ep = fixture.eps.passive;
    fixture.post_receives(ep, 7, 32768);
    peer_process peer = fixture.start_peer(after(established, {"send=60,32768"}));
    fixture.establish_peer();
    peer.wait_action("send");
    peer.kill();
    fixture.expect_completions(ep, ep.recv_evd, 7, {success, flushed});
    fixture.expect_end(ep);
    fixture.expect_service();
}

void test_reads_in_flight() {
    hostile_fixture fixture;
    const test_ep &ep = fixture.eps.passive;
    const std::string source =
        concat(fixture.eps.lmr.address(), ",", fixture.eps.lmr.rmr_context());
    peer_process peer = fixture.start_peer(after(established, {"read=60,131072," + source}));
    fixture.establish_peer();
    peer.wait_action("read");
    peer.kill();
    fixture.expect_end(ep);
    fixture.expect_service();
}

void test_disconnect_begun() {
    hostile_fixture fixture;
    const test_ep &ep = fixture.eps.passive;
    fixture.post_receives(ep, 4);
    peer_process peer = fixture.start_peer(after(established, {"disconnect"}));
    fixture.establish_peer();
    peer.wait_action("disconnect");
    peer.kill();
    fixture.expect_completions(ep, ep.recv_evd, 4, {flushed});
    fixture.expect_end(ep);
    fixture.expect_service();
}

/// The peer's memory, once it has sent its first message.
DAT_RMR_TRIPLET reach_memory(hostile_fixture &fixture, peer_process &peer, DAT_SEG_LENGTH length) {
    const test_ep &ep = fixture.eps.passive;
    fixture.establish_peer();
    fixture.expect_completions(ep, ep.recv_evd, 1, {success});
    std::istringstream memory(peer.wait_action("memory"));
    DAT_RMR_TRIPLET triplet{};
    memory >> triplet.virtual_address >> triplet.rmr_context;
    triplet.segment_length = length;
    return triplet;
}

/// Our own RDMA, in flight when the peer is killed; with a graceful disconnect that waits for it.
void test_our_rdma_in_flight(bool reads, bool disconnects) {
    constexpr std::size_t length = 131072;
    hostile_fixture fixture;
    const test_ep &ep = fixture.eps.passive;
    fixture.post_receives(ep, 1);
    peer_process peer = fixture.start_peer(after(established, {"send=1,64", "memory"}));
    const DAT_RMR_TRIPLET remote = reach_memory(fixture, peer, length);
    for (DAT_UINT64 cookie = 1; cookie <= 16; ++cookie) {
        const DAT_LMR_TRIPLET local = fixture.eps.lmr.make_lmr_triplet(0, length);
        require_success(reads ? conform::post_rdma_read(ep, local, remote, cookie)
                              : conform::post_rdma_write(ep, local, remote, cookie));
    }
    if (disconnects)
        require_success(dat_ep_disconnect(ep, DAT_CLOSE_GRACEFUL_FLAG));
    peer.kill();
    fixture.expect_completions(ep, ep.request_evd, 16,
                               {success, flushed, DAT_DTO_ERR_TRANSPORT, DAT_DTO_ERR_REMOTE_ACCESS,
                                DAT_DTO_ERR_REMOTE_RESPONDER, DAT_DTO_ERR_LOCAL_EP});
    fixture.expect_end(ep);
    fixture.expect_service();
}

constexpr std::initializer_list<DAT_EVENT_NUMBER> attempt_failed = {
    DAT_CONNECTION_EVENT_PEER_REJECTED,
    DAT_CONNECTION_EVENT_NON_PEER_REJECTED,
    DAT_CONNECTION_EVENT_UNREACHABLE,
    DAT_CONNECTION_EVENT_BROKEN,
};

/// Our EP connects to a listener that is killed after the last of these actions.
void test_listener(const action_list &actions) {
    hostile_fixture fixture;
    const test_ep &ep = fixture.eps.active;
    fixture.post_receives(ep, 2);
    peer_process peer = fixture.start_listener(after(actions, {}));
    peer.wait_action("listen");
    fixture.connect_to_listener();
    peer.wait_action(actions.back().substr(0, actions.back().find('=')));
    peer.kill();
    const DAT_EVENT event = fixture.expect_event(
        ep, {DAT_CONNECTION_EVENT_ESTABLISHED, DAT_CONNECTION_EVENT_PEER_REJECTED,
             DAT_CONNECTION_EVENT_NON_PEER_REJECTED, DAT_CONNECTION_EVENT_UNREACHABLE,
             DAT_CONNECTION_EVENT_BROKEN});
    if (event.event_number == DAT_CONNECTION_EVENT_ESTABLISHED) {
        expect_true(actions.size() != 1, "established without the peer's consent");
        fixture.expect_end(ep);
    }
    fixture.expect_completions(ep, ep.recv_evd, 2, {success, flushed});
    expect_no_event(ep.connect_evd, milliseconds(20));
    fixture.expect_service();
}

/// The listener is killed before our request.
void test_no_listener() {
    hostile_fixture fixture;
    peer_process peer = fixture.start_listener({"wait"});
    peer.wait_action("listen");
    peer.kill();
    fixture.connect_to_listener();
    fixture.expect_end(fixture.eps.active, attempt_failed);
    fixture.expect_service();
}

} // namespace

void add_vanish(case_list &cases) {
    add_case(cases, "vanish.after_address_resolution", test_address_resolved);
    add_case(cases, "vanish.after_request_then_accept", [] { test_request(true); });
    add_case(cases, "vanish.after_request_then_reject", [] { test_request(false); });
    add_case(cases, "vanish.after_request_then_free", test_request_and_free);
    add_case(cases, "vanish.after_reply", test_reply);
    add_case(cases, "vanish.when_established", test_established);
    add_case(cases, "vanish.before_our_sends", test_sends_to_the_gone);
    add_case(cases, "vanish.sends_in_flight", test_sends_in_flight);
    add_case(cases, "vanish.reads_in_flight", test_reads_in_flight);
    add_case(cases, "vanish.disconnect_begun", test_disconnect_begun);
    add_case(cases, "vanish.our_writes_in_flight", [] { test_our_rdma_in_flight(false, false); });
    add_case(cases, "vanish.our_reads_in_flight", [] { test_our_rdma_in_flight(true, false); });
    add_case(cases, "vanish.while_graceful_disconnect_waits_for_writes",
             [] { test_our_rdma_in_flight(false, true); });
    add_case(cases, "vanish.while_graceful_disconnect_waits_for_reads",
             [] { test_our_rdma_in_flight(true, true); });
    add_case(cases, "vanish.listener_before_request", test_no_listener);
    add_case(cases, "vanish.listener_has_request", [] { test_listener({"get_request"}); });
    add_case(cases, "vanish.listener_has_replied", [] {
        test_listener({"get_request", "qp", "accept"});
    });
    add_case(cases, "vanish.listener_sends_in_flight", [] {
        test_listener({"get_request", "qp", "accept", "established", "send=60,64"});
    });
    add_case(cases, "vanish.listener_disconnect_begun", [] {
        test_listener({"get_request", "qp", "accept", "established", "disconnect"});
    });
    add_case(cases, "vanish.listener_established", [] {
        test_listener({"get_request", "qp", "accept", "established"});
    });
}

} // namespace hostile_peer
