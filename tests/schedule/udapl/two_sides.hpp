// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Two EPs of a device of the fake fabric, and what must hold of their connection events.
#pragma once

#include "fake/consumer.hpp"
#include "schedule.hpp"

#include <set>
#include <thread>
#include <vector>

namespace udapl_programs {

using events = std::set<DAT_EVENT_NUMBER>;
using schedule::require;

enum class transport { roce, iwarp };

/// An EP that checks each connection event that it gets, and each completion.
class side {
  public:
    enum class role { active, passive };

    side(const fake::ia_fixture &owner, role in_attempts);
    /// Frees what is left. No event comes any more.
    void finish();
    /// dat_ep_free. The EVDs stay, with the events that have come.
    void free_ep();

    /// dat_ep_connect, dat_cr_accept: if it returns true, an attempt has begun.
    bool connect(DAT_TIMEOUT timeout_us = DAT_TIMEOUT_INFINITE);
    bool accept(DAT_CR_HANDLE cr);
    /// False: the EP is in no state for it.
    bool disconnect(DAT_CLOSE_FLAGS flags = DAT_CLOSE_ABRUPT_FLAG) const;
    /// dat_ep_reset, after the end of an attempt.
    void reset();
    bool is_in_attempt() const { return in_attempt_; }
    bool has_ended() const { return has_ended_; }
    bool has_completed_all() const;

    /// Waits for the next connection event of an attempt. True: it is ESTABLISHED.
    bool wait_until_established();
    /// Waits for the end of the attempt, which has one of these numbers.
    DAT_EVENT_NUMBER wait_for_end(const events &allowed);
    /// Takes the events that there are.
    void take_events();

    void post_send(const fake::memory &memory);
    void post_recv(const fake::memory &memory);
    /// Takes completions; at the end all have come, unless the EP was reset or freed.
    void require_all_completed();
    std::size_t count_succeeded() const { return num_succeeded_; }

    DAT_EP_STATE state() const;
    DAT_EP_HANDLE handle = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE connect_evd, dto_evd;

  private:
    void add(const DAT_EVENT &event);
    void add_completion(const DAT_EVENT &event);
    void take_completions();
    void begin_attempt();

    const fake::ia_fixture &ia_;
    const role role_;
    bool in_attempt_ = false, was_established_ = false, has_ended_ = false;
    DAT_EVENT_NUMBER end_ = DAT_CONNECTION_EVENT_DISCONNECTED;
    std::vector<bool> has_completed_; ///< by cookie
    std::size_t num_succeeded_ = 0;
};

/// A PSP, and the thread that answers its connection requests.
class listener {
  public:
    /// answer(cr): called once for each request.
    template <class function>
    listener(const fake::ia_fixture &ia, function answer)
        : listener(ia) {
        thread_ = std::thread([this, answer] {
            for (;;) {
                const DAT_CR_HANDLE cr = wait_for_request();
                if (cr == DAT_HANDLE_NULL)
                    return;
                answer(cr);
            }
        });
    }
    /// Ends the thread, and the PSP.
    void stop();
    /// Waits for the thread, whose IA is closed.
    void join() { thread_.join(); }

    static constexpr DAT_CONN_QUAL PORT = 5001;

  private:
    explicit listener(const fake::ia_fixture &ia);
    DAT_CR_HANDLE wait_for_request() const; ///< DAT_HANDLE_NULL: no more

    DAT_EVD_HANDLE evd_;
    DAT_PSP_HANDLE psp_ = DAT_HANDLE_NULL;
    std::thread thread_;
};

/// The fake fabric, at the begin of a program as it always is, at the end without objects.
class fabric_user {
  public:
    explicit fabric_user(transport kind);
    ~fabric_user();
    fabric_user(const fabric_user &) = delete;
    fabric_user &operator=(const fabric_user &) = delete;
    const char *ia_name;
};

/// Lets others go on for some time: a thread that goes on alone yields after 256 steps, and what a
/// thread does once would always be early.
void wait_for_any_moment();

void reject(DAT_CR_HANDLE cr);

} // namespace udapl_programs
