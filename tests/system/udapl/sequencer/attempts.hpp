// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The connection attempts of an EP, and the events that they may have: each at most ESTABLISHED and
// then one event of its end. The next attempt begins after that, with dat_ep_reset.

#pragma once

#include <dat2/udat.h>
#include <map>
#include <mutex>

namespace sequencer {

struct object;

class attempt_history {
  public:
    /// dat_ep_connect or dat_cr_accept is about to be called.
    void begin();
    /// It failed.
    void cancel();
    /// A connection event was taken from the EVD. False: there were too few attempts for the events
    /// so far. Their order counts only if the EVD is_serial, and is known for each EVD only: after
    /// dat_ep_modify events go to another one.
    bool add_event(const object &evd, DAT_EVENT_NUMBER number);

    /// The same of a datagram EP: each attempt has at most one event, and then BROKEN, if a request
    /// failed.
    bool add_datagram_event(DAT_EVENT_NUMBER number);

  private:
    std::mutex lock_;
    unsigned num_begun_ = 0, num_established_ = 0, num_ended_ = 0;
    unsigned num_in_order_ = 0; ///< attempts without which the order of the events is not possible
    std::map<const object *, bool> connected_; ///< by EVD: its last event is ESTABLISHED
};

} // namespace sequencer
