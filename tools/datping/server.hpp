// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "datping/limits.hpp"
#include "datping/session.hpp"

#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>

namespace tools::datping {

/// Serves any number of clients, up to MAX_CLIENTS at once, in one thread.
class server {
  public:
    server(const options &opts, server_result &result, std::FILE *out);
    /// Returns when interrupted, or with --once after one client.
    void run();

  private:
    using session_map = std::map<std::uint64_t, std::unique_ptr<session>>; // by number

    void listen();
    bool handle_pending_events();
    bool handle_pending_dto_events();
    void wait_for_events();
    void handle_dto_event(const DAT_EVENT &event);
    void handle_conn_event(const DAT_EVENT &event);
    void handle_conn_request(const DAT_CR_ARRIVAL_EVENT_DATA &arrival);
    std::optional<rejection> check_limits(const hello &request);
    void accept(DAT_CR_HANDLE cr, const hello &request, const std::string &address);
    void reject(DAT_CR_HANDLE cr, reject_reason reason, const std::string &address,
                const std::string &description);
    void handle_disconnect(session_map::iterator it, DAT_EVENT_NUMBER event);
    /// Returns the next session.
    session_map::iterator remove_session(session_map::iterator it);
    void check_deadlines();
    template <class Function>
    void call_session(session &client, Function function);
    template <class... Args>
    void log(const char *format, const Args &...args);

    const options &opts_;
    server_result &result_;
    std::FILE *out_;
    dat::adapter ia_;
    dat::pz_handle pz_;
    dat::evd_handle dto_evd_, conn_evd_;
    dat::psp_handle psp_;
    session_map sessions_;
    std::uint64_t num_clients_ = 0;    // so far; the number of the last one
    std::uint64_t leaving_client_ = 0; // the last one that gave way to another
    clock::time_point pass_begin_;     // all events from before it are handled, or are being
    clock::time_point next_deadline_check_;
};

} // namespace tools::datping
