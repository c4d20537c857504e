// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The steps of which a sequence consists: each draws the arguments of one function, calls it, and
// uses what it returns.

#pragma once

#include "../call.hpp"

#include <optional>
#include <span>

namespace sequencer {

struct step {
    void (*run)(worker &); ///< by the worker's thread
    unsigned weight;       ///< how often it is drawn, compared with the others
};

std::span<const step> ia_steps();
std::span<const step> evd_steps();
std::span<const step> cno_steps();
std::span<const step> memory_steps();
std::span<const step> srq_steps();
std::span<const step> ep_steps();
std::span<const step> post_steps();
std::span<const step> connect_steps();
std::span<const step> sp_steps();
std::span<const step> cr_steps();
std::span<const step> datagram_steps();
std::span<const step> race_steps();

/// Service points have a port of this range, from few, so that they are often in use.
constexpr DAT_CONN_QUAL min_conn_qual = 20000;
constexpr unsigned num_conn_quals = 8;

/// If another thread offers a race: calls the function that it asks for, with its object, while it
/// calls one itself. False: none does.
bool join_race(worker &thread);

/// Checks an event that was taken from the EVD. Of a connection request, adds the CR and its EP to
/// the shared objects, and returns the CR.
object *handle_event(worker &thread, const object &evd, const DAT_EVENT &event);

/// Sends to the address handle that the event brings, if it brings one, and frees it.
void handle_datagram_event(worker &thread, object &ep, const DAT_EVENT &event);
/// The PZ, EVD and EP that the datagram EPs need, from the begin to the end of a round.
void create_datagram_objects(worker &thread);
void free_datagram_objects(worker &thread);

/// Frees an object by the function of its type.
void free_object(worker &thread, DAT_HANDLE_TYPE type, const object_ref &ref);
DAT_EP_STATE get_state(worker &thread, const object_ref &ep);
/// The state by dat_ep_query; DAT_EP_STATE_UNCONNECTED if that fails.
DAT_EP_STATE query_ep(worker &thread, const object_ref &ep);
void query_receives(worker &thread, const object_ref &ep);
void disconnect_ep(worker &thread, const object_ref &ep);
void resize_srq(worker &thread, const object_ref &srq);
void reset_ep(worker &thread, const object_ref &ep);
void accept_cr(worker &thread, const object_ref &cr, const object_ref &ep);
/// Waits shortly for an event of the EVD, then takes all that are there. Returns the CR of the last
/// request, or nullptr.
object *wait_for_cr(worker &thread, const object_ref &evd);
void close_ia(worker &thread, const object_ref &ia, DAT_CLOSE_FLAGS flags);
/// Closes it by random flags; does nothing if it is the main IA.
void close_other_ia(worker &thread, const object_ref &ia);
object *open_ia(worker &thread); ///< nullptr: that failed
/// Takes all events that the EVD has.
void drain_evd(worker &thread, const object_ref &evd);
/// To be called after a call that has found that the EP's attempts have made this progress. Takes
/// all events of its connection EVD: a later event of them is a failure. num_calls:
/// num_attempt_calls() before that call.
void take_events_of_attempts(worker &thread, object &ep, std::optional<unsigned> num_calls,
                             attempt_history::progress reached);
/// Frees all objects in the required order, and closes the IAs gracefully.
void free_all_and_close_ias(worker &thread);

constexpr DAT_EVD_FLAGS operator|(DAT_EVD_FLAGS a, DAT_EVD_FLAGS b) {
    return static_cast<DAT_EVD_FLAGS>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
constexpr DAT_MEM_PRIV_FLAGS operator|(DAT_MEM_PRIV_FLAGS a, DAT_MEM_PRIV_FLAGS b) {
    return static_cast<DAT_MEM_PRIV_FLAGS>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
constexpr DAT_COMPLETION_FLAGS operator|(DAT_COMPLETION_FLAGS a, DAT_COMPLETION_FLAGS b) {
    return static_cast<DAT_COMPLETION_FLAGS>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}

/// Calls a query function with all fields, or with an invalid mask or pointer. True: param is
/// filled in, and param->ia_handle is that of the object's IA.
template <class param_type, class function, class mask_type>
bool query(worker &thread, const call_rule &rule, const object_ref &ref, function query_function,
           mask_type all_fields, param_type &param) {
    call query_call(thread, rule);
    DAT_HANDLE const handle = query_call.use_handle(ref, "handle");
    const bool bad_mask = thread.random.percent_chance(2),
               no_param = thread.random.percent_chance(2);
    if (bad_mask || no_param)
        query_call.expect_invalid_parameter();
    const auto mask =
        query_call.arg("mask", static_cast<mask_type>(bad_mask ? 0x80000000 : all_fields));
    query_call.check_result(
        query_function(handle, mask, query_call.arg("param", no_param ? nullptr : &param)));
    if (!query_call.has_succeeded())
        return false;
    if constexpr (requires { param.ia_handle; })
        if (param.ia_handle != ref.obj->ia->handle && !query_call.has_possibly_invalid_handle())
            fail(std::string(rule.name) + " returned another IA");
    return true;
}

/// Of the EP's attempt_history: how many calls began an attempt so far, unless one is in progress.
inline std::optional<unsigned> num_attempt_calls(const object_ref &ep) {
    return ep.obj != nullptr ? ep.obj->attempts.num_calls() : std::nullopt;
}

inline DAT_HANDLE handle_of(const object *obj) {
    return obj != nullptr ? obj->handle : DAT_HANDLE_NULL;
}

inline void expect(bool condition, const char *message) {
    if (!condition)
        fail(message);
}

} // namespace sequencer
