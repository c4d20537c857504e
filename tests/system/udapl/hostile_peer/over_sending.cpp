// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Peers that send more than was agreed on, or to where they may not.

#include "fixture.hpp"

#include <algorithm>

namespace hostile_peer {

namespace {

constexpr std::byte fill{0x5e};
constexpr DAT_DTO_COMPLETION_STATUS success = DAT_DTO_SUCCESS, flushed = DAT_DTO_ERR_FLUSHED;

/// Our EP: the one that accepts, or the one that connects to a peer that listens.
const test_ep &our_ep(const hostile_fixture &fixture, bool listens) {
    return listens ? fixture.eps.active : fixture.eps.passive;
}

action_list when_established(bool listens, const action_list &actions) {
    action_list all = {"resolve", "qp", "request", "established"};
    if (listens)
        all = {"get_request", "qp", "accept", "established"};
    all += actions;
    all += {"wait"};
    return all;
}

/// A peer that connects to our PSP, or accepts our request, and then does these actions.
struct connected_peer {
    peer_process process;

    connected_peer(hostile_fixture &fixture, bool listens, const action_list &actions)
        : process(listens ? fixture.start_listener(when_established(listens, actions))
                          : fixture.start_peer(when_established(listens, actions))) {
        if (!listens) {
            fixture.establish_peer();
            return;
        }
        process.wait_action("listen");
        fixture.connect_to_listener();
        next_event(fixture.eps.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    }
};

void expect_filled(std::span<const std::byte> memory, source_location loc = current_location()) {
    expect_true(
        std::all_of(memory.begin(), memory.end(), [](std::byte byte) { return byte == fill; }),
        "memory was written that the peer may not write", loc);
}

/// rxe's peer tries again until there are receives; siw's kernel ends the connection.
void test_more_messages_than_receives(bool listens) {
    hostile_fixture fixture;
    const test_ep &ep = our_ep(fixture, listens);
    fixture.post_receives(ep, 4);
    connected_peer peer(fixture, listens, {"send=8,64", "completions=4"});
    fixture.expect_completions(ep, ep.recv_evd, 4, {success});
    if (!fixture.is_iwarp()) {
        fixture.post_receives(ep, 4);
        fixture.expect_completions(ep, ep.recv_evd, 4, {success});
    } else {
        fixture.expect_end(ep);
    }
    peer.process.wait_action("completions");
    peer.process.kill();
    if (!fixture.is_iwarp())
        fixture.expect_end(ep);
    fixture.expect_service();
}

void test_message_longer_than_receive(bool listens) {
    hostile_fixture fixture;
    const test_ep &ep = our_ep(fixture, listens);
    std::fill_n(fixture.eps.lmr.data(), 8192, fill);
    fixture.post_receives(ep, 3, 64);
    connected_peer peer(fixture, listens, {"send=1,4096", "completions=1"});
    // rxe's kernel has another word for it.
    fixture.expect_completions(ep, ep.recv_evd, 1,
                               {DAT_DTO_ERR_LOCAL_LENGTH, DAT_DTO_ERR_LOCAL_EP});
    fixture.expect_completions(ep, ep.recv_evd, 2, {flushed}, 2);
    expect_filled(fixture.eps.lmr.bytes(64, 4096));
    peer.process.wait_action("completions");
    peer.process.kill();
    fixture.expect_end(ep);
    fixture.expect_service();
}

/// The peer reads or writes 4096 bytes at this address by this rkey, neither of which it may.
void test_remote_access(hostile_fixture &fixture, bool listens, const std::string &operation,
                        DAT_VADDR address, DAT_RMR_CONTEXT rkey) {
    const test_ep &ep = our_ep(fixture, listens);
    fixture.post_receives(ep, 1);
    connected_peer peer(fixture, listens,
                        {concat(operation, "=1,4096,", address, ",", rkey), "completions=1"});
    const std::string completion = peer.process.wait_action("completions");
    // A Write of iWARP completes when it is sent.
    if (operation == "read" || !fixture.is_iwarp())
        expect_true(completion != "1 success", "the peer's " + operation + " succeeds");
    peer.process.kill();
    fixture.expect_completions(ep, ep.recv_evd, 1, {flushed});
    fixture.expect_end(ep);
}

void test_outside_of_lmr(bool listens, const std::string &operation) {
    hostile_fixture fixture;
    const test_lmr lmr(fixture.eps.ia, fixture.eps.pz, 2 * conform::page_size);
    std::fill_n(lmr.data(), 2 * conform::page_size, fill);
    test_remote_access(fixture, listens, operation, lmr.address(2 * conform::page_size - 32),
                       lmr.rmr_context());
    expect_filled(lmr.bytes(0, 2 * conform::page_size));
    fixture.expect_service();
}
void test_stale_rkey(bool listens, const std::string &operation) {
    hostile_fixture fixture;
    test_lmr lmr(fixture.eps.ia, fixture.eps.pz, conform::page_size);
    std::fill_n(lmr.data(), conform::page_size, fill);
    require_success(lmr.free());
    test_remote_access(fixture, listens, operation, lmr.address(), lmr.rmr_context());
    expect_filled(lmr.bytes(0, conform::page_size));
    fixture.expect_service();
}
void test_without_privilege(bool listens, const std::string &operation) {
    hostile_fixture fixture;
    const test_lmr lmr(fixture.eps.ia, fixture.eps.pz, conform::page_size,
                       DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG);
    std::fill_n(lmr.data(), conform::page_size, fill);
    test_remote_access(fixture, listens, operation, lmr.address(), lmr.rmr_context());
    expect_filled(lmr.bytes(0, conform::page_size));
    fixture.expect_service();
}

/// The kernel decides what becomes of them: rxe forgets the oldest, siw's sender keeps to the
/// limit.
void test_more_reads_than_negotiated() {
    const DAT_EP_ATTR attr = conform::minimal_ep_attr(); // 2 Reads
    hostile_fixture fixture(&attr);
    const test_ep &ep = fixture.eps.passive;
    std::fill_n(fixture.eps.lmr.data(), conform::ep_pair::size, fill);
    action_list actions = {"resolve", "qp", "request", "established"};
    if (!fixture.is_iwarp())
        actions = {"resolve", "unready_qp", "request", "reply", "ready=16", "establish"};
    const std::string target =
        concat(fixture.eps.lmr.address(), ",", fixture.eps.lmr.rmr_context());
    actions += {"read=60,4096," + target, "completions=60", "wait"};
    peer_process peer = fixture.start_peer(actions);
    fixture.establish_peer();
    peer.wait_action("completions");
    peer.kill();
    fixture.expect_end(ep);
    expect_filled(fixture.eps.lmr.bytes(0, conform::ep_pair::size));
    fixture.expect_service();
}

} // namespace

void add_over_sending(case_list &cases) {
    for (const bool listens : {false, true}) {
        const std::string side = listens ? "_by_listener" : "";
        add_case(cases, "over_sending.more_messages_than_receives" + side,
                 [=] { test_more_messages_than_receives(listens); });
        add_case(cases, "over_sending.message_longer_than_receive" + side,
                 [=] { test_message_longer_than_receive(listens); });
        for (const std::string operation : {"write", "read"}) {
            const std::string name = "over_sending." + operation;
            add_case(cases, name + "_outside_of_lmr" + side,
                     [=] { test_outside_of_lmr(listens, operation); });
            add_case(cases, name + "_with_stale_rkey" + side,
                     [=] { test_stale_rkey(listens, operation); });
            add_case(cases, name + "_without_privilege" + side,
                     [=] { test_without_privilege(listens, operation); });
        }
    }
    add_case(cases, "over_sending.more_reads_than_negotiated", test_more_reads_than_negotiated);
}

} // namespace hostile_peer
