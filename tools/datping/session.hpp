// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "datping/channel.hpp"
#include "datping/events.hpp"
#include "datping/report/report.hpp"

#include <cstdint>
#include <stdexcept>

namespace tools::datping {

/// The server's side of one connection. It never waits: it handles events and posts DTOs. If a
/// function throws std::runtime_error, the client is to be disconnected with that message.
class session {
  public:
    enum class state { ACCEPTED, CONNECTED, BYE_RECEIVED, DISCONNECTING };

    session(const dat::adapter &ia, DAT_PZ_HANDLE pz, DAT_EVD_HANDLE dto_evd,
            DAT_EVD_HANDLE conn_evd, const hello &request, std::string address,
            std::uint64_t number, std::chrono::milliseconds timeout);

    DAT_EP_HANDLE ep() const { return channel_.ep(); }
    state current_state() const { return state_; }
    const served_client &result() const { return client_; }

    void handle_established();
    void handle_completion(const DAT_DTO_COMPLETION_EVENT_DATA &dto);
    /// Whether the client was silent for too long at that time, or did not disconnect in time.
    bool is_overdue(clock::time_point time) const { return time > deadline_; }
    std::string overdue_reason() const;
    /// For how long the client, at that time, has paused between two rounds; 0: it does not.
    std::chrono::milliseconds pause(clock::time_point time) const;
    /// Starts to disconnect; the session ends with the disconnect event, or when it is overdue.
    void disconnect(const std::string &problem);

  private:
    void handle_message(std::size_t length);
    void handle_advertise(const message &msg);
    void handle_start(const message &msg, std::size_t length);
    void complete_round();
    void send_reply(const message &msg);
    void post_reply();
    void reset_deadline();
    bool is_paused() const;

    channel channel_;
    served_client client_;
    bool verify_;
    std::chrono::milliseconds timeout_, max_pause_;
    clock::time_point deadline_, reply_time_;
    std::string dto_failure_; // description of a failed DTO; the disconnect event gives the reason
    state state_ = state::ACCEPTED;
    // The length of a message that arrived before the ESTABLISHED event.
    std::optional<std::size_t> early_length_;
    bool has_peer_buffers_ = false; // the client's buffers are known
    bool send_pending_ = false;     // a posted Send has not completed
    bool reply_queued_ = false;     // reply_ is to be sent after that Send
    bool in_round_ = false;         // START was received, and DONE not yet made
    remote_buffer peer_readable_, peer_writable_;
    message start_; // the current round
    message reply_; // the next reply
};

} // namespace tools::datping
