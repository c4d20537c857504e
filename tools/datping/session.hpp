// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "datping/channel.hpp"
#include "datping/events.hpp"
#include "datping/report.hpp"

#include <cstdint>
#include <stdexcept>

namespace tools::datping {

/// The server's side of a conversation with one client. It never waits: it is told what has
/// happened, and posts what follows from it. What is thrown, std::runtime_error, is for people, and
/// the end of this client.
class session {
  public:
    enum class state { ACCEPTED, OPEN, LEAVING, HANGING_UP };

    session(const dat::adapter &ia, DAT_PZ_HANDLE pz, DAT_EVD_HANDLE transfers,
            DAT_EVD_HANDLE connections, const hello &wanted, std::string address,
            std::uint64_t number, std::chrono::milliseconds timeout);

    DAT_EP_HANDLE endpoint() const { return link.endpoint(); }
    state is() const { return now_is; }
    const served_client &about() const { return client; }

    void established();
    void completed(const DAT_DTO_COMPLETION_EVENT_DATA &what);
    /// The client has been silent for too long, or does not go.
    bool overdue() const { return clock::now() > until; }
    std::string overdue_words() const;
    /// To be waited for until the connection is closed, or overdue.
    void hang_up(const std::string &problem);

  private:
    void received(std::size_t length);
    void begin(const message &said);
    void go(const message &said, std::size_t length);
    void have_data();
    void answer(const message &said);
    void post_answer();
    void alive();

    channel link;
    served_client client;
    bool verify;
    std::chrono::milliseconds patience;
    clock::time_point until;
    std::string failed; // a transfer, as the connection is going: the event will say why
    state now_is = state::ACCEPTED;
    std::optional<std::size_t> early; // length of a message that came before the connection
    bool offered = false;             // the client's memory is known
    bool sending = false;             // a Send is under way
    bool waiting = false;             // and the next waits for it
    place there_readable, there_writable;
    message round; // under way
    message next;  // to be sent
};

} // namespace tools::datping
