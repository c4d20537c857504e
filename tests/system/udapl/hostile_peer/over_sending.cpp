// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Peers that send more than was agreed on, or to where they may not.

#include "fixture.hpp"

#include <algorithm>

namespace hostile_peer {

namespace {

constexpr std::byte unwritten_byte{0x5e};
constexpr DAT_DTO_COMPLETION_STATUS success = DAT_DTO_SUCCESS, flushed = DAT_DTO_ERR_FLUSHED;

/// Our EP: the one that accepts, or the one that connects to a peer that listens.
const test_ep &our_ep(const hostile_fixture &fixture, bool peer_listens) {
    return peer_listens ? fixture.eps.active : fixture.eps.passive;
}

/// Actions of a peer that connects, or listens, is established, and then does these.
action_list when_established(bool peer_listens, const action_list &actions) {
    action_list all = {"resolve", "qp", "request", "established"};
    if (peer_listens)
        all = {"get_request", "qp", "accept", "established"};
    all += actions;
    all += {"wait"};
    return all;
}

/// A peer that connects to our PSP, or accepts our request, and then does these actions.
struct connected_peer {
    peer_process process;

    connected_peer(hostile_fixture &fixture, bool peer_listens, const action_list &actions)
        : process(peer_listens
                      ? fixture.start_listening_peer(when_established(peer_listens, actions))
                      : fixture.start_connecting_peer(when_established(peer_listens, actions))) {
        if (!peer_listens) {
            fixture.accept_and_establish();
            return;
        }
        process.wait_action_done("listen");
        fixture.connect_to_listening_peer();
        next_event(fixture.eps.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    }
};

/// The case has filled this memory with unwritten_byte before the peer's RDMA or message.
void expect_not_written(std::span<const std::byte> memory,
                        source_location loc = current_location()) {
    expect_true(std::all_of(memory.begin(), memory.end(),
                            [](std::byte byte) { return byte == unwritten_byte; }),
                "memory was written that the peer may not write", loc);
}

/// The peer sends 8 messages to 4 receives. On rxe its QP repeats the fifth until there are
/// receives; siw's kernel ends the connection. `completions=4`: siw may drop the later four.
void test_more_messages_than_receives(bool peer_listens) {
    hostile_fixture fixture;
    const test_ep &ep = our_ep(fixture, peer_listens);
    fixture.post_receives(ep, 4);
    connected_peer peer(fixture, peer_listens, {"send=8,64", "completions=4"});
    fixture.expect_completions(ep, ep.recv_evd, 4, {success});
    if (!fixture.is_iwarp()) {
        fixture.post_receives(ep, 4);
        fixture.expect_completions(ep, ep.recv_evd, 4, {success});
    } else {
        fixture.expect_last_event(ep);
    }
    peer.process.wait_action_done("completions");
    peer.process.kill();
    if (!fixture.is_iwarp())
        fixture.expect_last_event(ep);
    fixture.expect_service_unharmed();
}

/// The peer sends 4096 bytes to the first of three receives of 64 bytes: an error completes it, the
/// others are flushed, and nothing is written after its 64 bytes.
void test_message_longer_than_receive(bool peer_listens) {
    hostile_fixture fixture;
    const test_ep &ep = our_ep(fixture, peer_listens);
    std::fill_n(fixture.eps.lmr.data(), 8192, unwritten_byte);
    fixture.post_receives(ep, 3, 64);
    connected_peer peer(fixture, peer_listens, {"send=1,4096", "completions=1"});
    // LOCAL_EP: rxe reports IBV_WC_LOC_QP_OP_ERR where siw has IBV_WC_LOC_LEN_ERR.
    fixture.expect_completions(ep, ep.recv_evd, 1,
                               {DAT_DTO_ERR_LOCAL_LENGTH, DAT_DTO_ERR_LOCAL_EP});
    fixture.expect_completions(ep, ep.recv_evd, 2, {flushed}, 2 /* first cookie */);
    expect_not_written(fixture.eps.lmr.bytes(64, 4096));
    peer.process.wait_action_done("completions");
    peer.process.kill();
    fixture.expect_last_event(ep);
    fixture.expect_service_unharmed();
}

/// The peer does the operation, "read" or "write", of 4096 bytes at this address by this rkey,
/// which it may not: it gets an error, and the connection ends.
void expect_remote_access_fails(hostile_fixture &fixture, bool peer_listens,
                                const std::string &operation, DAT_VADDR address,
                                DAT_RMR_CONTEXT rkey) {
    const test_ep &ep = our_ep(fixture, peer_listens);
    fixture.post_receives(ep, 1);
    connected_peer peer(fixture, peer_listens,
                        {concat(operation, "=1,4096,", address, ",", rkey), "completions=1"});
    const std::string completion = peer.process.wait_action_done("completions");
    // A Write of iWARP completes when it is sent.
    if (operation == "read" || !fixture.is_iwarp())
        expect_true(completion != "1 success", "the peer's " + operation + " succeeds");
    peer.process.kill();
    fixture.expect_completions(ep, ep.recv_evd, 1, {flushed});
    fixture.expect_last_event(ep);
}

/// The last 32 bytes of the LMR, and what follows them.
void test_outside_of_lmr(bool peer_listens, const std::string &operation) {
    hostile_fixture fixture;
    const test_lmr lmr(fixture.eps.ia, fixture.eps.pz, 2 * conform::page_size);
    std::fill_n(lmr.data(), 2 * conform::page_size, unwritten_byte);
    expect_remote_access_fails(fixture, peer_listens, operation,
                               lmr.address(2 * conform::page_size - 32), lmr.rmr_context());
    expect_not_written(lmr.bytes(0, 2 * conform::page_size));
    fixture.expect_service_unharmed();
}
/// The rkey of an LMR that was freed; its memory is still mapped.
void test_stale_rkey(bool peer_listens, const std::string &operation) {
    hostile_fixture fixture;
    test_lmr lmr(fixture.eps.ia, fixture.eps.pz, conform::page_size);
    std::fill_n(lmr.data(), conform::page_size, unwritten_byte);
    require_success(lmr.free());
    expect_remote_access_fails(fixture, peer_listens, operation, lmr.address(), lmr.rmr_context());
    expect_not_written(lmr.bytes(0, conform::page_size));
    fixture.expect_service_unharmed();
}
/// An LMR for local access only.
void test_without_privilege(bool peer_listens, const std::string &operation) {
    hostile_fixture fixture;
    const test_lmr lmr(fixture.eps.ia, fixture.eps.pz, conform::page_size,
                       DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG);
    std::fill_n(lmr.data(), conform::page_size, unwritten_byte);
    expect_remote_access_fails(fixture, peer_listens, operation, lmr.address(), lmr.rmr_context());
    expect_not_written(lmr.bytes(0, conform::page_size));
    fixture.expect_service_unharmed();
}

/// The peer has up to 16 Reads in flight, and our EP permits 2. What becomes of them is the
/// kernel's: rxe forgets the oldest, siw's sender keeps to the limit. The connection ends at the
/// latest with the peer, and the memory that is read is not written.
void test_more_reads_than_negotiated() {
    const DAT_EP_ATTR attr = conform::minimal_ep_attr(); // max_rdma_read_in is 2
    hostile_fixture fixture(&attr);
    const test_ep &ep = fixture.eps.passive;
    std::fill_n(fixture.eps.lmr.data(), conform::ep_pair::size, unwritten_byte);
    action_list actions = {"resolve", "qp", "request", "established"};
    if (!fixture.is_iwarp())
        actions = {"resolve", "qp_unknown_to_cma", "request", "reply", "ready=16", "establish"};
    const std::string target =
        concat(fixture.eps.lmr.address(), ",", fixture.eps.lmr.rmr_context());
    actions += {"read=60,4096," + target, "completions=60", "wait"};
    peer_process peer = fixture.start_connecting_peer(actions);
    fixture.accept_and_establish();
    peer.wait_action_done("completions");
    peer.kill();
    fixture.expect_last_event(ep);
    expect_not_written(fixture.eps.lmr.bytes(0, conform::ep_pair::size));
    fixture.expect_service_unharmed();
}

} // namespace

void add_over_sending(case_list &cases) {
    for (const bool peer_listens : {false, true}) {
        const std::string side = peer_listens ? "_by_listener" : "";
        add_case(cases, "over_sending.more_messages_than_receives" + side,
                 [=] { test_more_messages_than_receives(peer_listens); });
        add_case(cases, "over_sending.message_longer_than_receive" + side,
                 [=] { test_message_longer_than_receive(peer_listens); });
        for (const std::string operation : {"write", "read"}) {
            const std::string name = "over_sending." + operation;
            add_case(cases, name + "_outside_of_lmr" + side,
                     [=] { test_outside_of_lmr(peer_listens, operation); });
            add_case(cases, name + "_with_stale_rkey" + side,
                     [=] { test_stale_rkey(peer_listens, operation); });
            add_case(cases, name + "_without_privilege" + side,
                     [=] { test_without_privilege(peer_listens, operation); });
        }
    }
    add_case(cases, "over_sending.more_reads_than_negotiated", test_more_reads_than_negotiated);
}

} // namespace hostile_peer
