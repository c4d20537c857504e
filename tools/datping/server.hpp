// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "datping/session.hpp"

#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>

namespace tools::datping {

/// Serves any number of clients, up to 16 at once, in one thread.
class server {
  public:
    server(const options &opts, server_result &result, std::FILE *out);
    /// Returns when interrupted, or with --once after one client.
    void run();

  private:
    void listen();
    bool handle_pending_events();
    void wait_for_events();
    void handle_dto_event(const DAT_EVENT &event);
    void handle_conn_event(const DAT_EVENT &event);
    void handle_conn_request(const DAT_CR_ARRIVAL_EVENT_DATA &arrival);
    void accept(DAT_CR_HANDLE cr, const hello &request, const std::string &address);
    void reject(DAT_CR_HANDLE cr, reject_reason reason, const std::string &address,
                const std::string &description);
    void handle_disconnect(std::uint64_t number, DAT_EVENT_NUMBER event);
    void remove_session(std::uint64_t number);
    void check_deadlines();
    template <class Function>
    void call_session(session &client, Function function);
    std::uint64_t find_session(DAT_EP_HANDLE ep) const;
    template <class... Args>
    void log(const char *format, const Args &...args);

    const options &opts_;
    server_result &result_;
    std::FILE *out_;
    dat::adapter ia_;
    dat::pz_handle pz_;
    dat::evd_handle dto_evd_, conn_evd_;
    dat::psp_handle psp_;
    std::map<std::uint64_t, std::unique_ptr<session>> sessions_;
    std::uint64_t last_session_ = 0;
    clock::time_point next_deadline_check_;
};

} // namespace tools::datping
