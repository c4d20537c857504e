// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "datping/latency.hpp"
#include "datping/options.hpp"

#include <cstdint>
#include <string>

namespace tools::datping {

struct mode_result {
    datping::mode mode = mode::PINGPONG;
    latency times;               ///< of all rounds that were completed
    std::uint64_t wrong = 0;     ///< rounds with bytes that were not as sent
    std::uint64_t at_server = 0; ///< of those, seen by the server already
    std::string first_wrong;     ///< in words
};

/// What a client knows at its end.
struct client_result {
    std::string host, address, ia, ia_address, library;
    bool connected = false, stopped = false;
    bool sync_here = false, sync_there = false;
    std::vector<mode_result> modes;
    double seconds = 0;
    std::string problem; ///< why it ended before its time; or empty
    bool good() const;   ///< some round, none wrong, no problem
};

struct served_client {
    std::string address;
    std::uint64_t size = 0, rounds = 0, wrong = 0;
    std::string problem;
};

struct server_result {
    std::string ia, ia_address, library;
    bool sync_here = false;
    std::uint64_t refused = 0;
    std::vector<served_client> clients;
    bool good() const; ///< no client with wrong data or a problem
};

/// "round 3 (pingpong): 2 of 64 bytes wrong here; at 17 is 0x2a, not 0x3b"
std::string describe(mode which, std::uint64_t round, std::uint64_t size, const damage &found,
                     const char *where);

/// Each of at most 80 columns unless a name is long.
std::string header(const options &asked, const client_result &all);
std::string summary(const options &asked, const client_result &all);

std::string as_json(const options &asked, const client_result &all);
std::string as_json(const options &asked, const server_result &all);

} // namespace tools::datping
