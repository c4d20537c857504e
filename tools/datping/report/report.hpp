// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "datping/options.hpp"
#include "datping/report/latency.hpp"

#include <cstdint>
#include <string>

namespace tools::datping {

struct mode_result {
    datping::mode mode = mode::PINGPONG;
    latency times;                     ///< of all completed rounds
    std::uint64_t wrong_rounds = 0;    ///< rounds with wrong data
    std::uint64_t wrong_at_server = 0; ///< those that the server found
    std::string first_wrong;           ///< description of the first wrong round
};

/// The result of a client.
struct client_result {
    std::string host, address, ia, ia_address, library;
    bool connected = false, interrupted = false;
    bool local_needs_sync = false, peer_needs_sync = false;
    std::vector<mode_result> modes;
    double seconds = 0;
    std::string problem;  ///< why the test failed; empty if it did not
    bool is_good() const; ///< at least one round, no wrong data, no problem
};

struct served_client {
    std::string address;
    std::uint64_t size = 0, rounds = 0, wrong_rounds = 0;
    std::string problem;
};

struct server_result {
    std::string ia, ia_address, library;
    bool local_needs_sync = false;
    /// Clients may come without end: the others are only counted.
    static constexpr std::size_t MAX_LISTED_CLIENTS = 1000;
    std::uint64_t rejected = 0, served = 0, failed = 0; ///< failed: with wrong data or a problem
    std::vector<served_client> clients;                 ///< the first ones
    void add(const served_client &client);
    bool is_good() const { return failed == 0; }
};

/// "round 3 (pingpong): 2 of 64 bytes wrong here; at 17 is 0x2a, not 0x3b"
std::string describe_mismatch(mode round_mode, std::uint64_t round, std::uint64_t size,
                              const data_mismatch &mismatch, const char *side);

/// The lines have at most 80 columns unless a name is long.
std::string format_header(const options &opts, const client_result &result);
std::string format_summary(const options &opts, const client_result &result);

std::string as_json(const options &opts, const client_result &result);
std::string as_json(const options &opts, const server_result &result);

} // namespace tools::datping
