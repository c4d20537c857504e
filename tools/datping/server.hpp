// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "datping/session.hpp"

#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>

namespace tools::datping {

/// Serves all clients that come, several at once, in one thread.
class server {
  public:
    server(const options &asked, server_result &all, std::FILE *out);
    /// Until somebody wants to stop it, or the one client has been served.
    void run();

  private:
    void listen();
    bool step();
    void sleep();
    void transfer(const DAT_EVENT &event);
    void connection(const DAT_EVENT &event);
    void request(const DAT_CR_ARRIVAL_EVENT_DATA &arrived);
    void accept(DAT_CR_HANDLE request, const hello &wanted, const std::string &address);
    void refuse(DAT_CR_HANDLE request, refusal why, const std::string &address,
                const std::string &words);
    void closed(std::uint64_t number, DAT_EVENT_NUMBER why);
    void remove(std::uint64_t number);
    void look_at_clocks();
    template <class Step>
    void guarded(session &one, Step step);
    std::uint64_t find(DAT_EP_HANDLE endpoint) const;
    template <class... Words>
    void tell(const char *form, const Words &...words);

    const options &asked;
    server_result &all;
    std::FILE *out;
    dat::adapter ia;
    dat::pz_handle pz;
    dat::evd_handle transfers, connections;
    dat::psp_handle listening;
    std::map<std::uint64_t, std::unique_ptr<session>> sessions;
    std::uint64_t last_number = 0;
    clock::time_point next_look;
};

} // namespace tools::datping
