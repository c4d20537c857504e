// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "datping/channel.hpp"
#include "datping/choose.hpp"
#include "datping/events.hpp"
#include "datping/report.hpp"

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

namespace tools::datping {

/// A conversation with a server. Throws std::runtime_error with words if it ends before its time,
/// and stopped if the user wants it to while the server is awaited.
class client {
  public:
    struct stopped {};

    client(const options &asked, const choice &chosen);

    /// What the server says of itself.
    hello connect();
    /// Both tell where their memory is.
    void offer();
    struct outcome {
        double microseconds = 0;
        damage here, at_server;
    };
    outcome round(mode which, std::uint64_t number);
    /// Watches the connection meanwhile. Shorter if the user wants to stop.
    void rest(std::chrono::milliseconds time);
    void leave(std::uint64_t wrong);
    /// Why something failed: the connection's end, if that is what it was, else the words given.
    std::string cause(const std::string &otherwise) const;

  private:
    void await(work wanted);
    void note(const DAT_EVENT &event);
    /// In words, if it comes within that time.
    std::optional<std::string> end_of_connection(std::chrono::microseconds time) const;
    void look_at_connection() const;
    message answer(message::kind wanted);
    void send(message::kind is, mode which, std::uint64_t number);
    void check_answer(const message &said, mode which, std::uint64_t number) const;
    std::string not_connected(const DAT_EVENT &event) const;
    std::string rejected(const DAT_EVENT &event) const;
    hello welcome(const DAT_CONNECTION_EVENT_DATA &came) const;

    const options &asked;
    const choice &chosen;
    dat::pz_handle pz;
    dat::evd_handle transfers, connections;
    channel link;
    place there_readable, there_writable;
    std::string where = "at the beginning";
    unsigned done[5] = {};     // completions that nobody has awaited yet, by work
    std::size_t got_bytes = 0; // of the last Receive
    bool sending = false;      // a Send is under way
};

/// A whole run. Throws if it cannot begin; how it ended is in the result. False if something is
/// still held that takes time to free: then end the process without destructors, of libraries too.
bool run_client(const options &asked, client_result &all, std::FILE *out);

} // namespace tools::datping
