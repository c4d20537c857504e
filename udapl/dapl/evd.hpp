// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// An event dispatcher: a queue of events, of one or more streams. Completions come from its CQ;
// everything else is posted to it by other objects. udapl/README.md tells how they go together.
#pragma once

#include "lock.hpp"
#include "object.hpp"
#include "owned.hpp"
#include "queue.hpp"

#include <cstdint>
#include <unistd.h>

namespace coherdma::dapl {

struct cno;

class descriptor {
  public:
    descriptor() noexcept = default;
    ~descriptor() { reset(); }
    descriptor(const descriptor &) = delete;
    descriptor &operator=(const descriptor &) = delete;
    void reset(int fd = -1) noexcept {
        if (number >= 0)
            close(number);
        number = fd;
    }
    int get() const noexcept { return number; }
    explicit operator bool() const noexcept { return number >= 0; }

  private:
    int number = -1;
};

/// Streams that are fed by a CQ.
inline constexpr DAT_EVD_FLAGS completion_streams =
    static_cast<DAT_EVD_FLAGS>(DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG);

struct evd : object {
    static constexpr DAT_HANDLE_TYPE type = DAT_HANDLE_TYPE_EVD;
    evd(ia &of, DAT_COUNT length, DAT_EVD_FLAGS wanted) noexcept
        : object(of)
        , qlen(length)
        , flags(wanted) {}
    ~evd();

    /// The CQ and its channel. 0 or an errno.
    int make_queue() noexcept;

    /// Has an event of other than the CQ. It wakes who waits; if there is no room, the event is
    /// lost and the asynchronous EVD tells.
    bool post(const DAT_EVENT &event) noexcept;

    // The rest needs guard.

    /// How many events may wait.
    std::uint32_t most() const noexcept;

    /// Whether the next event is the CQ's next completion, and for any who asks. straight has to
    /// say so all the time, so that it need not be found out.
    bool is_straight() const noexcept { return cq && events.empty() && !waited; }
    /// Moves all completions to the queue. How many events are in it then.
    std::uint32_t gather() noexcept;
    /// From now on its descriptors tell of the next event.
    bool arm() noexcept;
    /// Takes notice of what its descriptors told.
    void disarm(bool by_bell, bool by_channel) noexcept;
    /// The descriptor for events that are posted. False: there is none left.
    bool make_bell() noexcept;
    void ring_bell() const noexcept;

    lock guard;
    owned<ibv_cq, ibv_destroy_cq> cq;
    event_queue events;
    ibv_wc found;          ///< the last completion, for who takes it
    DAT_EVENT *into;       ///< where he wants it
    bool straight = false; ///< see is_straight
    bool waited = false;   ///< somebody is in dat_evd_wait
    bool sleeping = false; ///< and asleep
    bool leave = false;    ///< he is to give up
    bool apart = false;    ///< his, so its CNO does not hear of it
    bool waitable = true;
    bool enabled = true;
    bool thresholds = true; ///< dat_evd_wait may ask for more than one event
    bool solicited = false; ///< only solicited completions wake
    DAT_COUNT qlen;
    const DAT_EVD_FLAGS flags;
    unsigned unacknowledged = 0;
    cno *feeds = nullptr;
    owned<ibv_comp_channel, ibv_destroy_comp_channel> channel;
    descriptor bell;
};

} // namespace coherdma::dapl
