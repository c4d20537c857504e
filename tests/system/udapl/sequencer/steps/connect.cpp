// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Connections within this process, and their ends.

#include "steps.hpp"

#include <chrono>
#include <netinet/in.h>

namespace sequencer {

namespace {

constexpr DAT_TIMEOUT timeouts_us[] = {DAT_TIMEOUT_INFINITE, DAT_TIMEOUT_INFINITE, 1000000, 1000};

unsigned char private_data[16] = "sequencer";

object_ref draw_ep(worker &thread) {
    return thread.draw(DAT_HANDLE_TYPE_EP);
}

/// The qualifier of a live service point; if there is none, one that a service point may have had.
DAT_CONN_QUAL draw_conn_qual(worker &thread) {
    static constexpr DAT_HANDLE_TYPE types[] = {DAT_HANDLE_TYPE_PSP, DAT_HANDLE_TYPE_PSP,
                                                DAT_HANDLE_TYPE_RSP, DAT_HANDLE_TYPE_CSP};
    const object *const sp = thread.find_live(thread.random.choose(types));
    return sp != nullptr ? sp->conn_qual
                         : min_conn_qual + thread.random.number_below(num_conn_quals);
}

/// Notes that the call begins an attempt. At the peer that makes a CR, and perhaps an EP, which the
/// library frees if no event brings them.
void note_attempt(call &connect_call, const object_ref &ep) {
    connect_call.begins_attempt(ep.obj);
    connect_call.creates(DAT_HANDLE_TYPE_CR);
    connect_call.creates(DAT_HANDLE_TYPE_EP);
    // dat_ep_modify may have removed its connection EVD, or it was created without one.
    if (ep.obj != nullptr && (ep.obj->maybe_modified || ep.obj->connect_evd == nullptr))
        connect_call.allow_invalid_handle();
}

/// Of the functions that connect, a datagram EP has only dat_ep_connect.
void allow_not_supported_for_datagrams(call &connect_call, const object_ref &ep) {
    if (ep.obj != nullptr && ep.obj->is_datagram)
        connect_call.allow(rules::not_supported);
}

void connect_to(worker &thread, const object_ref &ep, DAT_CONN_QUAL qual) {
    call connect_call(thread, rules::ep_connect);
    note_attempt(connect_call, ep);
    DAT_HANDLE const handle = connect_call.use_handle(ep, "ep");
    connect_call.arg("conn_qual", qual);
    DAT_TIMEOUT timeout = thread.random.choose(timeouts_us);
    if (thread.random.percent_chance(2)) {
        connect_call.expect_invalid_parameter();
        timeout = 0;
    }
    connect_call.check_result(
        dat_ep_connect(handle, reinterpret_cast<DAT_IA_ADDRESS_PTR>(&thread.shared.address), qual,
                       connect_call.arg("timeout", timeout),
                       static_cast<DAT_COUNT>(thread.random.number_below(sizeof private_data)),
                       private_data, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
}

void connect(worker &thread) {
    const object_ref ep = draw_ep(thread);
    connect_to(thread, ep, draw_conn_qual(thread));
}

void common_connect(worker &thread) {
    const object_ref ep = draw_ep(thread);
    sockaddr_storage address = thread.shared.address;
    // The port is in the same place in a sockaddr_in6.
    reinterpret_cast<sockaddr_in *>(&address)->sin_port =
        htons(static_cast<std::uint16_t>(draw_conn_qual(thread)));
    call connect_call(thread, rules::ep_common_connect);
    note_attempt(connect_call, ep);
    allow_not_supported_for_datagrams(connect_call, ep);
    DAT_HANDLE const handle = connect_call.use_handle(ep, "ep");
    connect_call.check_result(dat_ep_common_connect(handle,
                                                    reinterpret_cast<DAT_IA_ADDRESS_PTR>(&address),
                                                    thread.random.choose(timeouts_us), 0, nullptr));
}

void dup_connect(worker &thread) {
    const object_ref ep = draw_ep(thread);
    const object *const ia = ep.obj != nullptr ? ep.obj->ia : nullptr;
    const object_ref dup = thread.draw(DAT_HANDLE_TYPE_EP, ia);
    call connect_call(thread, rules::ep_dup_connect);
    note_attempt(connect_call, ep);
    allow_not_supported_for_datagrams(connect_call, ep);
    DAT_HANDLE const handle = connect_call.use_handle(ep, "ep"),
                     dup_handle = connect_call.use_handle(dup, ia, "dup_ep");
    connect_call.check_result(dat_ep_dup_connect(
        handle, dup_handle, thread.random.choose(timeouts_us), 0, nullptr, DAT_QOS_BEST_EFFORT));
}

void disconnect(worker &thread) {
    disconnect_ep(thread, draw_ep(thread));
}

/// Disconnects an EP after a short time, or when it becomes CONNECTED: mostly while the event
/// thread handles the answer of the peer.
void wait_shortly_and_disconnect(worker &thread, const object_ref &ep) {
    using namespace std::chrono;
    const bool until_connected = thread.random.percent_chance(50);
    const auto end = steady_clock::now() + microseconds(thread.random.number_below(100));
    DAT_EP_STATE state{};
    while (steady_clock::now() < end && state != DAT_EP_STATE_CONNECTED)
        if (until_connected)
            state = query_ep(thread, ep);
    disconnect_ep(thread, ep);
}

/// Resets the EP, after a disconnect if its attempt is in progress; that fails if the EP is
/// connected.
void make_ready_to_connect(worker &thread, const object_ref &ep) {
    if (get_state(thread, ep) == DAT_EP_STATE_ACTIVE_CONNECTION_PENDING)
        disconnect_ep(thread, ep);
    reset_ep(thread, ep);
}

/// Connects two EPs, by a request and its accept: if both calls were left to chance, few requests
/// would be accepted.
void connect_two_eps(worker &thread) {
    const object *const psp = thread.find_live(DAT_HANDLE_TYPE_PSP);
    if (psp == nullptr)
        return;
    const object_ref ep = draw_ep(thread), peer = thread.draw(DAT_HANDLE_TYPE_EP, psp->ia);
    make_ready_to_connect(thread, ep);
    connect_to(thread, ep, psp->conn_qual);
    object *const cr = wait_for_cr(thread, {psp->evd, psp->evd->handle});
    if (cr == nullptr)
        return;
    const object_ref passive_ep =
        cr->local_ep != nullptr ? object_ref{cr->local_ep, cr->local_ep->handle} : peer;
    make_ready_to_connect(thread, passive_ep);
    accept_cr(thread, {cr, cr->handle}, passive_ep);
    if (thread.random.percent_chance(50))
        wait_shortly_and_disconnect(thread, passive_ep);
    if (thread.random.percent_chance(50))
        wait_shortly_and_disconnect(thread, ep);
}

} // namespace

void disconnect_ep(worker &thread, const object_ref &ep) {
    const auto num_calls = num_attempt_calls(ep);
    call disconnect_call(thread, rules::ep_disconnect);
    DAT_HANDLE const handle = disconnect_call.use_handle(ep, "ep");
    disconnect_call.check_result(
        dat_ep_disconnect(handle, disconnect_call.arg("flags", thread.random.percent_chance(50)
                                                                   ? DAT_CLOSE_ABRUPT_FLAG
                                                                   : DAT_CLOSE_GRACEFUL_FLAG)));
    if (disconnect_call.has_succeeded())
        take_events_of_attempts(thread, *ep.obj, num_calls, attempt_history::progress::set_up);
}

std::span<const step> connect_steps() {
    static constexpr step steps[] = {{connect, 20},
                                     {connect_two_eps, 30},
                                     {common_connect, 4},
                                     {dup_connect, 4},
                                     {disconnect, 6}};
    return steps;
}

} // namespace sequencer
