// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Programs over the uDAPL provider, in which connections begin and end.

#include "two_sides.hpp"

#include <array>
#include <cerrno>
#include <thread>
#include <utility>

namespace {

using namespace udapl_programs;
using enum transport;

/// Of connect: the shortest is over at once, since each look at the time takes some.
DAT_TIMEOUT choose_timeout_us() {
    constexpr std::array<DAT_TIMEOUT, 3> TIMEOUTS_US = {1, 20, 1000};
    return TIMEOUTS_US[schedule::choose(TIMEOUTS_US.size())];
}

const events ONLY_DISCONNECTED = {DAT_CONNECTION_EVENT_DISCONNECTED};
/// Of an attempt that the active side gives up, or whose peer is not reached.
const events PASSIVE_ENDS = {DAT_CONNECTION_EVENT_DISCONNECTED,
                             DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR};
/// Of an attempt whose passive side ends while it replies, or before.
const events PEER_ENDS = {DAT_CONNECTION_EVENT_DISCONNECTED, DAT_CONNECTION_EVENT_BROKEN,
                          DAT_CONNECTION_EVENT_PEER_REJECTED,
                          DAT_CONNECTION_EVENT_NON_PEER_REJECTED};

DAT_CLOSE_FLAGS choose_flags() {
    return schedule::choose(2) == 0 ? DAT_CLOSE_ABRUPT_FLAG : DAT_CLOSE_GRACEFUL_FLAG;
}

/// Calls function at any moment.
template <class function_type>
std::thread start_beside(function_type function) {
    return std::thread([function] {
        wait_for_any_moment();
        function();
    });
}

/// An IA with an EP for each side.
struct two_sides {
    explicit two_sides(transport kind)
        : fabric(kind)
        , ia(fabric.ia_name)
        , active(ia, side::role::active)
        , passive(ia, side::role::passive) {}
    ~two_sides() {
        active.finish();
        passive.finish();
        fake::close(ia);
    }
    two_sides(const two_sides &) = delete;
    two_sides &operator=(const two_sides &) = delete;

    /// The passive side has no call that ends what it has accepted: the peer has ended it.
    void wait_for_passive_end() {
        if (passive.is_in_attempt())
            passive.wait_for_end(PASSIVE_ENDS);
    }

    const fabric_user fabric;
    fake::ia_fixture ia;
    side active, passive;
};

/// Ends what is left of the attempt, and waits for that.
void end(side &ep, const events &allowed) {
    if (!ep.is_in_attempt())
        return;
    require(ep.disconnect(), "an attempt is not disconnected");
    ep.wait_for_end(allowed);
}

/// Both sides, when they are connected.
void connect(const fake::ia_fixture &ia, side &active, side &passive) {
    listener psp(
        ia, [&](DAT_CR_HANDLE cr) { require(passive.accept(cr), "a request is not accepted"); });
    require(active.connect(), "not connected");
    require(active.wait_until_established(), "the active side is not connected");
    psp.stop();
    require(passive.wait_until_established(), "the passive side is not connected");
}
void connect(two_sides &sides) {
    connect(sides.ia, sides.active, sides.passive);
}

/// The active side disconnects, at any moment, what it connects.
template <transport kind>
void connect_and_disconnect() {
    two_sides sides(kind);
    listener psp(sides.ia, [&](DAT_CR_HANDLE cr) { sides.passive.accept(cr); });
    require(sides.active.connect(), "not connected");
    std::thread disconnecting =
        start_beside([&] { require(sides.active.disconnect(choose_flags()), "not disconnected"); });
    sides.active.wait_for_end(ONLY_DISCONNECTED);
    disconnecting.join();
    psp.stop();
    sides.wait_for_passive_end();
}

/// The passive side disconnects, at any moment, what it accepts.
template <transport kind>
void accept_and_disconnect() {
    two_sides sides(kind);
    listener psp(sides.ia, [&](DAT_CR_HANDLE cr) {
        require(sides.passive.accept(cr), "a request is not accepted");
        wait_for_any_moment();
        sides.passive.disconnect(choose_flags()); // fails if the other thread has begun it
    });
    std::thread disconnecting =
        start_beside([&] { sides.passive.disconnect(); }); // if it is in time
    require(sides.active.connect(), "not connected");
    sides.active.wait_for_end(PEER_ENDS);
    disconnecting.join();
    psp.stop();
    require(sides.passive.is_in_attempt(), "a request does not arrive");
    sides.passive.wait_for_end(PASSIVE_ENDS);
}

/// Both sides disconnect while they connect.
template <transport kind>
void both_disconnect_an_attempt() {
    two_sides sides(kind);
    listener psp(sides.ia, [&](DAT_CR_HANDLE cr) {
        if (!sides.passive.accept(cr))
            return;
        wait_for_any_moment();
        require(sides.passive.disconnect(choose_flags()), "not disconnected");
    });
    require(sides.active.connect(), "not connected");
    std::thread disconnecting =
        start_beside([&] { require(sides.active.disconnect(choose_flags()), "not disconnected"); });
    sides.active.wait_for_end(PEER_ENDS);
    disconnecting.join();
    psp.stop();
    sides.wait_for_passive_end();
}

/// Both sides disconnect while requests are outstanding.
template <transport kind>
void both_disconnect_with_requests() {
    two_sides sides(kind);
    const fake::memory memory(sides.ia);
    connect(sides);
    fake::get_fabric().hold_work_requests();
    for (side *const ep : {&sides.active, &sides.passive}) {
        ep->post_recv(memory);
        ep->post_send(memory);
    }
    std::thread passive_disconnects = start_beside(
        [&] { require(sides.passive.disconnect(choose_flags()), "not disconnected"); });
    std::thread device = start_beside([] { fake::get_fabric().release_work_requests(); });
    wait_for_any_moment();
    require(sides.active.disconnect(choose_flags()), "not disconnected");
    sides.active.post_send(memory);
    device.join();
    passive_disconnects.join();
    for (side *const ep : {&sides.active, &sides.passive}) {
        ep->wait_for_end(ONLY_DISCONNECTED);
        ep->require_all_completed();
    }
}

/// One side disconnects gracefully: its requests have completed before, and the peer's receive.
template <transport kind>
void graceful_disconnect() {
    two_sides sides(kind);
    const fake::memory memory(sides.ia);
    connect(sides);
    const bool is_active = schedule::choose(2) == 0;
    side &ep = is_active ? sides.active : sides.passive;
    side &peer = is_active ? sides.passive : sides.active;
    fake::get_fabric().hold_work_requests();
    peer.post_recv(memory);
    ep.post_send(memory);
    std::thread device = start_beside([] { fake::get_fabric().release_work_requests(); });
    require(ep.disconnect(DAT_CLOSE_GRACEFUL_FLAG), "not disconnected");
    ep.wait_for_end(ONLY_DISCONNECTED);
    ep.take_events();
    require(ep.count_succeeded() == 1, "the end comes before the completion of a request");
    device.join();
    peer.wait_for_end(ONLY_DISCONNECTED);
    peer.require_all_completed();
    require(peer.count_succeeded() == 1, "a message before a graceful disconnect is lost");
}

/// Two EPs share a request EVD and disconnect gracefully behind unsignaled requests.
template <transport kind>
void graceful_disconnects_share_evd() {
    two_sides sides(kind);
    const fake::memory memory(sides.ia);
    DAT_LMR_TRIPLET iov = memory.lmr_triplet(0, 1);
    side second(sides.ia, side::role::active), second_peer(sides.ia, side::role::passive);
    DAT_EVD_HANDLE const shared = sides.ia.create_evd(DAT_EVD_DTO_FLAG, 2);
    for (side *const ep : {&sides.active, &second}) {
        ep->free_ep();
        fake::assert_success(fake::dat().ep_create_func(sides.ia.handle, sides.ia.pz, ep->dto_evd,
                                                        shared, ep->connect_evd, nullptr,
                                                        &ep->handle));
    }
    connect(sides);
    connect(sides.ia, second, second_peer);
    fake::get_fabric().hold_work_requests();
    for (side *const peer : {&sides.passive, &second_peer})
        peer->post_recv(memory);
    for (const side *const ep : {&sides.active, &second})
        fake::assert_success(fake::dat().ep_post_send_func(ep->handle, 1, &iov, fake::cookie(1),
                                                           DAT_COMPLETION_SUPPRESS_FLAG));
    std::thread device = start_beside([] { fake::get_fabric().release_work_requests(); });
    std::thread disconnecting = start_beside(
        [&] { require(second.disconnect(DAT_CLOSE_GRACEFUL_FLAG), "not disconnected"); });
    require(sides.active.disconnect(DAT_CLOSE_GRACEFUL_FLAG), "not disconnected");
    for (side *const each : {&sides.active, &second, &sides.passive, &second_peer})
        each->wait_for_end(ONLY_DISCONNECTED);
    for (side *const peer : {&sides.passive, &second_peer}) {
        peer->require_all_completed();
        require(peer->count_succeeded() == 1, "a message before a graceful disconnect is lost");
    }
    DAT_EVENT event = {};
    require(fake::dat().evd_dequeue_func(shared, &event) != DAT_SUCCESS, "a marker is an event");
    device.join();
    disconnecting.join();
    for (side *const ep : {&sides.active, &second})
        ep->free_ep();
    fake::assert_success(fake::dat().evd_free_func(shared));
    second.finish();
    second_peer.finish();
}

/// Without an ACK time-out the DREP is waited for until rdma_cm gives up.
void disconnect_without_time_out() {
    two_sides sides(roce);
    const fake::memory memory(sides.ia);
    fake::get_fabric().ack_timeout = 0;
    connect(sides);
    fake::get_fabric().hold_work_requests();
    fake::get_fabric().hold_cm_events(RDMA_CM_EVENT_DISCONNECTED);
    sides.active.post_send(memory);
    require(sides.active.disconnect(DAT_CLOSE_GRACEFUL_FLAG), "not disconnected");
    wait_for_any_moment();
    require(sides.active.disconnect(DAT_CLOSE_ABRUPT_FLAG), "not disconnected");
    wait_for_any_moment();
    sides.active.take_events();
    require(!sides.active.has_ended(), "the end comes before the DREP");
    fake::get_fabric().release_cm_events(RDMA_CM_EVENT_DISCONNECTED);
    for (side *const each : {&sides.active, &sides.passive})
        each->wait_for_end(ONLY_DISCONNECTED);
    sides.active.require_all_completed();
}

/// A QP fails while its side, or the peer, disconnects.
template <transport kind>
void qp_fails_beside_disconnect() {
    two_sides sides(kind);
    const fake::memory memory(sides.ia);
    connect(sides);
    for (side *const ep : {&sides.active, &sides.passive})
        ep->post_recv(memory);
    std::thread device = start_beside([&] {
        fake::get_fabric().fail_qp(fake::qp_of(sides.active.handle));
        sides.active.require_all_completed(); // by which the provider knows it
    });
    side &ep = schedule::choose(2) == 0 ? sides.active : sides.passive;
    wait_for_any_moment();
    require(ep.disconnect(choose_flags()), "not disconnected");
    device.join();
    for (side *const each : {&sides.active, &sides.passive}) {
        each->wait_for_end({DAT_CONNECTION_EVENT_DISCONNECTED, DAT_CONNECTION_EVENT_BROKEN});
        each->require_all_completed();
    }
}

/// A QP fails as responder, and its EP is reset or freed, while the peer disconnects or not, or its
/// IA is closed.
template <transport kind>
void end_of_ep_whose_qp_fails() {
    const fabric_user fabric(kind);
    fake::ia_fixture ia(fabric.ia_name), peer_ia(fabric.ia_name);
    side ep(ia, side::role::passive), peer(peer_ia, side::role::active);
    fake::memory memory(ia);
    connect(ia, peer, ep);
    ep.post_recv(memory);
    std::thread peer_disconnects = start_beside([&] {
        if (schedule::choose(2) == 0)
            require(peer.disconnect(choose_flags()), "not disconnected");
    });
    fake::get_fabric().fail_qp(fake::qp_of(ep.handle));
    ep.require_all_completed(); // by which the provider knows it
    ep.wait_for_end({DAT_CONNECTION_EVENT_DISCONNECTED, DAT_CONNECTION_EVENT_BROKEN});
    wait_for_any_moment();
    const bool closes = schedule::choose(2) == 0;
    if (closes)
        ia.close();
    else if (schedule::choose(2) == 0)
        ep.reset();
    peer.wait_for_end({DAT_CONNECTION_EVENT_DISCONNECTED, DAT_CONNECTION_EVENT_BROKEN});
    peer_disconnects.join();
    peer.finish();
    fake::close(peer_ia);
    if (!closes) {
        ep.finish();
        memory.free();
        fake::close(ia);
    }
}

/// The peer rejects while the active side disconnects, or its time is over.
template <transport kind>
void reject_and_disconnect() {
    two_sides sides(kind);
    listener psp(sides.ia, [](DAT_CR_HANDLE cr) {
        wait_for_any_moment();
        reject(cr);
    });
    require(sides.active.connect(), "not connected");
    std::thread disconnecting = start_beside([&] { sides.active.disconnect(choose_flags()); });
    sides.active.wait_for_end(
        {DAT_CONNECTION_EVENT_PEER_REJECTED, DAT_CONNECTION_EVENT_DISCONNECTED});
    disconnecting.join();
    psp.stop();
}
template <transport kind>
void reject_and_time_out() {
    two_sides sides(kind);
    listener psp(sides.ia, [](DAT_CR_HANDLE cr) {
        wait_for_any_moment();
        reject(cr);
    });
    require(sides.active.connect(choose_timeout_us()), "not connected");
    sides.active.wait_for_end({DAT_CONNECTION_EVENT_PEER_REJECTED, DAT_CONNECTION_EVENT_TIMED_OUT});
    psp.stop();
}

/// The time is over while the peer accepts.
template <transport kind>
void accept_and_time_out() {
    two_sides sides(kind);
    listener psp(sides.ia, [&](DAT_CR_HANDLE cr) {
        wait_for_any_moment();
        sides.passive.accept(cr);
    });
    require(sides.active.connect(choose_timeout_us()), "not connected");
    if (sides.active.wait_until_established())
        end(sides.active, ONLY_DISCONNECTED);
    else
        sides.active.wait_for_end({DAT_CONNECTION_EVENT_TIMED_OUT});
    psp.stop();
    sides.wait_for_passive_end();
}

/// No peer answers, and the active side disconnects or frees its EP when its time is over.
template <transport kind>
void time_out_and_end() {
    two_sides sides(kind);
    fake::get_fabric().drop_connects = true;
    require(sides.active.connect(choose_timeout_us()), "not connected");
    switch (schedule::choose(3)) {
    case 0:
        sides.active.wait_for_end({DAT_CONNECTION_EVENT_TIMED_OUT});
        break;
    case 1:
        wait_for_any_moment();
        require(sides.active.disconnect(), "not disconnected");
        sides.active.wait_for_end(
            {DAT_CONNECTION_EVENT_TIMED_OUT, DAT_CONNECTION_EVENT_DISCONNECTED});
        break;
    default:
        wait_for_any_moment();
        sides.active.free_ep();
    }
}

/// An attempt ends in any way and the EP connects again: what is late of the first attempt does
/// not end the second.
template <transport kind>
void reset_and_connect_again() {
    two_sides sides(kind);
    const fake::memory memory(sides.ia);
    side second(sides.ia, side::role::passive);
    bool is_first = true;
    listener psp(sides.ia, [&](DAT_CR_HANDLE cr) {
        (std::exchange(is_first, false) ? sides.passive : second).accept(cr);
    });
    require(sides.active.connect(choose_timeout_us()), "not connected");
    sides.active.post_recv(memory);
    wait_for_any_moment();
    switch (schedule::choose(3)) {
    case 0:
        if (sides.active.wait_until_established()) {
            fake::get_fabric().fail_qp(fake::qp_of(sides.active.handle));
            sides.active.require_all_completed(); // by which the provider knows it
        }
        break;
    case 1:
        if (sides.active.wait_until_established()) {
            sides.active.post_send(memory); // without a receive
            sides.active.disconnect();
        }
        break;
    default:
        sides.active.disconnect();
    }
    sides.active.wait_for_end({DAT_CONNECTION_EVENT_DISCONNECTED, DAT_CONNECTION_EVENT_BROKEN,
                               DAT_CONNECTION_EVENT_TIMED_OUT});
    sides.active.reset();
    require(sides.active.connect(), "not connected again");
    require(sides.active.wait_until_established(), "the second attempt fails");
    psp.stop();
    side &peer = second.is_in_attempt() ? second : sides.passive;
    require(peer.wait_until_established(), "the second attempt fails");
    require(sides.active.state() == DAT_EP_STATE_CONNECTED, "the second connection is not there");
    end(sides.active, ONLY_DISCONNECTED);
    for (side *const each : {&sides.passive, &second})
        if (each->is_in_attempt())
            each->wait_for_end({DAT_CONNECTION_EVENT_DISCONNECTED, DAT_CONNECTION_EVENT_BROKEN,
                                DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR});
    second.finish();
}

/// Both sides end a connection, reset their EPs and connect again, while CM events of the first
/// connection are late.
template <transport kind>
void reset_both_and_connect_again() {
    two_sides sides(kind);
    const fake::memory memory(sides.ia);
    connect(sides);
    if (schedule::choose(2) == 0)
        fake::get_fabric().hold_cm_events(RDMA_CM_EVENT_DISCONNECTED);
    for (side *const ep : {&sides.active, &sides.passive}) {
        ep->post_recv(memory);
        ep->post_send(memory);
    }
    std::thread network =
        start_beside([] { fake::get_fabric().release_cm_events(RDMA_CM_EVENT_DISCONNECTED); });
    std::thread resetting = start_beside([&] {
        require(sides.passive.disconnect(choose_flags()), "not disconnected");
        sides.passive.wait_for_end(ONLY_DISCONNECTED);
        sides.passive.reset();
    });
    require(sides.active.disconnect(choose_flags()), "not disconnected");
    sides.active.wait_for_end(ONLY_DISCONNECTED);
    sides.active.reset();
    resetting.join();
    connect(sides);
    network.join();
    sides.active.post_recv(memory);
    require(sides.active.disconnect(), "not disconnected");
    for (side *const ep : {&sides.active, &sides.passive}) {
        ep->wait_for_end(ONLY_DISCONNECTED);
        ep->require_all_completed();
    }
}

/// CM events of one kind are late while both sides disconnect.
template <transport kind>
void late_cm_events() {
    constexpr std::array KINDS = {RDMA_CM_EVENT_CONNECT_RESPONSE, RDMA_CM_EVENT_ESTABLISHED,
                                  RDMA_CM_EVENT_REJECTED, RDMA_CM_EVENT_DISCONNECTED};
    two_sides sides(kind);
    const rdma_cm_event_type late = KINDS.at(schedule::choose(KINDS.size()));
    fake::get_fabric().hold_cm_events(late);
    listener psp(sides.ia, [&](DAT_CR_HANDLE cr) {
        if (!sides.passive.accept(cr))
            return;
        wait_for_any_moment();
        sides.passive.disconnect(choose_flags());
    });
    std::thread network = start_beside([late] { fake::get_fabric().release_cm_events(late); });
    require(sides.active.connect(), "not connected");
    wait_for_any_moment();
    sides.active.disconnect(choose_flags());
    sides.active.wait_for_end(PEER_ENDS);
    network.join();
    psp.stop();
    sides.wait_for_passive_end();
}

/// The network loses DREQs and DREPs: both sides end when their time is over, and what comes after
/// that has no effect.
void disconnect_without_drep() {
    two_sides sides(roce);
    connect(sides);
    fake::get_fabric().hold_cm_events(RDMA_CM_EVENT_DISCONNECTED);
    std::thread disconnecting = start_beside(
        [&] { require(sides.passive.disconnect(choose_flags()), "not disconnected"); });
    require(sides.active.disconnect(choose_flags()), "not disconnected");
    disconnecting.join();
    for (side *const ep : {&sides.active, &sides.passive})
        ep->wait_for_end(ONLY_DISCONNECTED);
    std::thread network =
        start_beside([] { fake::get_fabric().release_cm_events(RDMA_CM_EVENT_DISCONNECTED); });
    if (schedule::choose(2) == 0)
        sides.active.reset();
    sides.passive.free_ep();
    network.join();
}

/// rdma_cm reports that a connection has failed, as when the RTU was lost, beside its end.
template <transport kind>
void connection_fails_beside_disconnect() {
    constexpr std::array KINDS = {RDMA_CM_EVENT_REJECTED, RDMA_CM_EVENT_UNREACHABLE,
                                  RDMA_CM_EVENT_CONNECT_ERROR};
    constexpr int CONSUMER_REJECT = 28; // the IB CM's reason
    two_sides sides(kind);
    const fake::memory memory(sides.ia);
    connect(sides);
    side &ep = schedule::choose(2) == 0 ? sides.active : sides.passive;
    ep.post_recv(memory);
    // Its ids are the latest; they are there as long as the EPs are.
    const auto ids = fake::get_fabric().cm_ids();
    rdma_cm_id *const id = ids.at(ids.size() - 1 - schedule::choose(2));
    std::thread network = start_beside([id, failure = KINDS.at(schedule::choose(KINDS.size()))] {
        fake::get_fabric().queue_cm_event(id, failure, CONSUMER_REJECT);
    });
    wait_for_any_moment();
    if (schedule::choose(2) == 0)
        require(ep.disconnect(choose_flags()), "not disconnected");
    network.join();
    for (side *const each : {&sides.active, &sides.passive}) {
        each->wait_for_end({DAT_CONNECTION_EVENT_DISCONNECTED, DAT_CONNECTION_EVENT_BROKEN});
        each->require_all_completed();
    }
}

/// The kernel blocks calls for an attempt that is not answered, until some moment.
void blocked_attempt_ends() {
    two_sides sides(iwarp);
    fake::get_fabric().drop_connects = true;
    if (schedule::choose(2) == 0)
        fake::get_fabric().block_connects();
    else
        fake::get_fabric().block_unanswered();
    std::thread network = start_beside([] {
        fake::get_fabric().unblock_connects();
        fake::get_fabric().unblock_unanswered();
    });
    require(sides.active.connect(choose_timeout_us()), "not connected");
    wait_for_any_moment();
    sides.active.disconnect(choose_flags());
    sides.active.wait_for_end({DAT_CONNECTION_EVENT_DISCONNECTED, DAT_CONNECTION_EVENT_TIMED_OUT});
    if (schedule::choose(2) == 0) {
        sides.active.reset();
        require(sides.active.connect(), "not connected again");
        sides.active.free_ep();
    }
    network.join();
}

/// The IA is closed while a call for an attempt blocks, which fails then.
void blocked_attempt_outlives_ia() {
    const fabric_user fabric(iwarp);
    fake::ia_fixture ia(fabric.ia_name);
    side active(ia, side::role::active);
    fake::get_fabric().block_connects();
    fake::get_fabric().connect_results = {ECONNREFUSED};
    std::thread network = start_beside([] { fake::get_fabric().unblock_connects(); });
    require(active.connect(), "not connected");
    wait_for_any_moment();
    ia.close();
    network.join();
    if (schedule::choose(2) == 0)
        fake::ia_fixture(fabric.ia_name).close();
}

/// The active EP is freed while it connects and disconnects; its peer ends.
template <transport kind>
void free_active_ep() {
    two_sides sides(kind);
    listener psp(sides.ia, [&](DAT_CR_HANDLE cr) { sides.passive.accept(cr); });
    require(
        sides.active.connect(schedule::choose(2) == 0 ? DAT_TIMEOUT_INFINITE : choose_timeout_us()),
        "not connected");
    std::thread disconnecting = start_beside(
        [handle = sides.active.handle] { fake::dat().ep_disconnect_func(handle, choose_flags()); });
    wait_for_any_moment();
    sides.active.free_ep();
    disconnecting.join();
    psp.stop();
    sides.wait_for_passive_end();
}

/// The passive EP is freed while it accepts; its peer ends.
template <transport kind>
void free_passive_ep() {
    two_sides sides(kind);
    listener psp(sides.ia, [&](DAT_CR_HANDLE cr) {
        if (!sides.passive.accept(cr))
            reject(cr); // it is freed already
    });
    require(sides.active.connect(), "not connected");
    std::thread freeing = start_beside([&] { fake::dat().ep_free_func(sides.passive.handle); });
    sides.active.wait_for_end(PEER_ENDS);
    freeing.join();
    psp.stop();
    sides.passive.handle = DAT_HANDLE_NULL;
}

/// The EP of a connection is freed while its peer disconnects.
template <transport kind>
void free_beside_disconnect() {
    two_sides sides(kind);
    const fake::memory memory(sides.ia);
    connect(sides);
    sides.active.post_recv(memory);
    sides.passive.post_send(memory);
    std::thread disconnecting = start_beside(
        [&] { require(sides.passive.disconnect(choose_flags()), "not disconnected"); });
    wait_for_any_moment();
    sides.active.free_ep();
    disconnecting.join();
    sides.passive.wait_for_end({DAT_CONNECTION_EVENT_DISCONNECTED, DAT_CONNECTION_EVENT_BROKEN});
    sides.passive.require_all_completed();
}

/// The reply cannot be sent, while the active side disconnects or not.
template <transport kind>
void accept_fails() {
    two_sides sides(kind);
    fake::get_fabric().injected.fail("rdma_accept", ECONNRESET, 1);
    listener psp(sides.ia, [&](DAT_CR_HANDLE cr) { sides.passive.accept(cr); });
    require(sides.active.connect(), "not connected");
    std::thread disconnecting = start_beside([&] {
        if (schedule::choose(2) == 0)
            sides.active.disconnect();
    });
    sides.active.wait_for_end(
        {DAT_CONNECTION_EVENT_NON_PEER_REJECTED, DAT_CONNECTION_EVENT_DISCONNECTED});
    disconnecting.join();
    psp.stop();
    if (sides.passive.is_in_attempt())
        sides.passive.wait_for_end({DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR});
}

/// The active side's IA is closed beside its connect; the peer ends.
template <transport kind>
void close_active_ia() {
    const fabric_user fabric(kind);
    fake::ia_fixture ia(fabric.ia_name), peer_ia(fabric.ia_name);
    side active(ia, side::role::active), passive(peer_ia, side::role::passive);
    listener psp(peer_ia, [&](DAT_CR_HANDLE cr) { passive.accept(cr); });
    std::thread connecting = start_beside([&] { active.connect(); });
    wait_for_any_moment();
    ia.close();
    connecting.join();
    psp.stop();
    if (passive.is_in_attempt())
        passive.wait_for_end(PASSIVE_ENDS);
    passive.finish();
    fake::close(peer_ia);
}

/// The passive side's IA is closed beside its accept; the peer ends.
template <transport kind>
void close_passive_ia() {
    const fabric_user fabric(kind);
    fake::ia_fixture ia(fabric.ia_name), peer_ia(fabric.ia_name);
    side active(ia, side::role::active), passive(peer_ia, side::role::passive);
    listener psp(peer_ia, [&](DAT_CR_HANDLE cr) { passive.accept(cr); });
    require(active.connect(), "not connected");
    wait_for_any_moment();
    peer_ia.close();
    psp.join();
    active.wait_for_end(PEER_ENDS);
    active.finish();
    fake::close(ia);
}

#define ON_BOTH(name)                                                                              \
    schedule::program{#name, name<roce>}, schedule::program {                                      \
#        name "_iwarp", name < iwarp>                                                              \
    }

constexpr std::array PROGRAMS = {
    ON_BOTH(connect_and_disconnect),
    ON_BOTH(accept_and_disconnect),
    ON_BOTH(both_disconnect_an_attempt),
    ON_BOTH(both_disconnect_with_requests),
    ON_BOTH(graceful_disconnect),
    ON_BOTH(graceful_disconnects_share_evd),
    schedule::program{"disconnect_without_time_out", disconnect_without_time_out},
    ON_BOTH(qp_fails_beside_disconnect),
    ON_BOTH(end_of_ep_whose_qp_fails),
    ON_BOTH(reject_and_disconnect),
    ON_BOTH(reject_and_time_out),
    ON_BOTH(accept_and_time_out),
    ON_BOTH(time_out_and_end),
    ON_BOTH(reset_and_connect_again),
    ON_BOTH(reset_both_and_connect_again),
    ON_BOTH(late_cm_events),
    schedule::program{"disconnect_without_drep", disconnect_without_drep},
    ON_BOTH(connection_fails_beside_disconnect),
    schedule::program{"blocked_attempt_ends_iwarp", blocked_attempt_ends},
    schedule::program{"blocked_attempt_outlives_ia_iwarp", blocked_attempt_outlives_ia},
    ON_BOTH(free_active_ep),
    ON_BOTH(free_passive_ep),
    ON_BOTH(free_beside_disconnect),
    ON_BOTH(accept_fails),
    ON_BOTH(close_active_ia),
    ON_BOTH(close_passive_ia),
};

} // namespace

int main(int argc, char **argv) {
    return schedule::run_programs(argc, argv, PROGRAMS);
}
