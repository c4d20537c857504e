// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The connection attempts of an EP, and the events that they may have: each at most ESTABLISHED and
// then one event of its end. The next attempt begins after that, with dat_ep_reset.
//
// Events do not name their attempt. But when dat_ep_query has found the EP connected, or
// dat_ep_disconnect has succeeded, ESTABLISHED is in the EVD; when dat_ep_query has found it
// disconnected, or dat_ep_reset has succeeded, so are all events of the attempts before. Once they
// have been taken, later ones are of later attempts.

#pragma once

#include <dat2/udat.h>
#include <map>
#include <mutex>
#include <optional>

namespace sequencer {

struct object;

class attempt_history {
  public:
    /// A function that begins an attempt, as dat_ep_connect or dat_cr_accept, is about to be
    /// called.
    void begin();
    /// It has returned. If it failed, there was no attempt.
    void end_call(bool succeeded);

    /// set_up: each attempt so far has been established, or has failed; ended: and its connection
    /// has ended.
    enum class progress { set_up, ended };
    /// The number of calls that began an attempt so far; none while such a call is in progress.
    std::optional<unsigned> num_calls() const;
    /// A call of DAT has found that the attempts so far have made this progress, and then all
    /// events were taken from the EP's connection EVD. num_calls_before: num_calls() before that
    /// call.
    void set_events_taken(std::optional<unsigned> num_calls_before, progress reached);

    /// A connection event was taken from the EVD. False: there were too few attempts for the events
    /// so far. Their order counts only if the EVD is_dequeued_under_lock, and is known for each EVD
    /// only: after dat_ep_modify events go to another one.
    bool add_event(const object &evd, DAT_EVENT_NUMBER number);

    /// The same of a datagram EP: each attempt has at most one event, and then BROKEN, if a request
    /// failed.
    bool add_datagram_event(DAT_EVENT_NUMBER number);

  private:
    mutable std::mutex lock_;
    unsigned num_calls_ = 0, num_in_progress_ = 0; ///< calls that begin an attempt
    unsigned num_begun_ = 0; ///< attempts that such a call began, or may have begun
    unsigned num_established_ = 0,
             num_ended_ = 0; ///< attempts whose event of this kind was taken, or cannot come
    unsigned min_attempts_by_order_ =
        0; ///< attempts without which the order of the events is not possible
    std::map<const object *, bool> connected_; ///< by EVD: its last event is ESTABLISHED
};

} // namespace sequencer
