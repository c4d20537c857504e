// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "datping/channel.hpp"
#include "datping/events.hpp"
#include "datping/report/report.hpp"
#include "datping/select_ia.hpp"

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

namespace tools::datping {

/// The client's side of a test. Its functions throw std::runtime_error when the test fails, and
/// interrupted after SIGINT or SIGTERM.
class client {
  public:
    struct interrupted {};

    client(const options &opts, const selected_ia &selected);

    /// Connects; returns the server's hello.
    hello connect();
    /// Exchanges the addresses of the buffers.
    void exchange_buffers();
    struct round_result {
        double microseconds = 0;
        data_mismatch at_client, at_server; ///< wrong bytes that each side received
    };
    /// One round as protocol.hpp defines it for the mode: the server returns the data that it got.
    round_result run_round(mode round_mode, std::uint64_t round);
    /// Waits until the next round and checks the connection meanwhile. Returns early if
    /// interrupted.
    void wait_between_rounds(std::chrono::milliseconds duration);
    /// Says BYE and disconnects.
    void finish(std::uint64_t wrong_rounds);
    /// The reason for a failure: the end of the connection if it has ended, else `fallback`.
    std::string failure_reason(const std::string &fallback) const;

  private:
    void wait_for_completion(dto_kind kind);
    void handle_dto_event(const DAT_EVENT &event);
    /// Describes the end of the connection if it ends within the timeout.
    std::optional<std::string> describe_connection_end(std::chrono::microseconds timeout) const;
    void check_connection() const;
    message receive_reply(message::kind expected);
    void send_start(mode round_mode, std::uint64_t round);
    void check_done(const message &msg, mode round_mode, std::uint64_t round) const;
    std::string describe_connect_failure(const DAT_EVENT &event) const;
    std::string describe_reject(const DAT_EVENT &event) const;
    hello check_accept(const DAT_CONNECTION_EVENT_DATA &event) const;

    const options &opts_;
    const selected_ia &selected_;
    dat::pz_handle pz_;
    dat::evd_handle dto_evd_, conn_evd_;
    channel channel_;
    remote_buffer peer_readable_, peer_writable_;
    std::string phase_text_ = "during setup"; // ends the sentences of error messages
    unsigned num_completed_[4] = {};          // completions not yet waited for, by dto_kind
    std::size_t received_length_ = 0;         // of the last Receive's completion
    bool send_pending_ = false;               // a posted Send has not completed
};

/// Runs all rounds. Throws if the test cannot start; otherwise the result says how it ended.
/// Returns false if the connection was not closed in order: then exit without running destructors,
/// since freeing the EP could block.
bool run_client(const options &opts, client_result &result, std::FILE *out);

} // namespace tools::datping
