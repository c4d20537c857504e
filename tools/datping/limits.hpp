// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What a server grants to its clients. All clients together have memory for MAX_LARGE_CLIENTS of
// the maximum size, and for small ones in the other slots; besides, one client that gives way has
// its memory until its connection has ended.
#pragma once

#include "datping/options.hpp"

#include <optional>
#include <span>
#include <string>

namespace tools::datping {

constexpr std::size_t MAX_CLIENTS = 16;
constexpr std::size_t MAX_LARGE_CLIENTS = 4;
/// The interval that a client may announce, unless the server's -i is another.
constexpr std::chrono::seconds DEFAULT_MAX_INTERVAL{60};

/// The size up to which a client is not a large one.
std::uint64_t max_small_size(const options &server_opts);

/// What a client uses.
struct client_usage {
    std::uint64_t size = 0;
    std::chrono::milliseconds pause{0}; ///< since the server's last reply; 0 during a round
};

struct rejection {
    reject_reason reason;
    std::string description; ///< for the server's output
};
/// Why the server rejects a client with this request; nothing: it accepts.
std::optional<rejection> check_request(const hello &request, const options &server_opts,
                                       std::span<const client_usage> clients);

/// The index of the client that gives way to a request that is rejected: the one that has paused
/// longest, of those that have paused for longer than the server's timeout and without which the
/// server accepts. Nothing: there is none.
std::optional<std::size_t> find_client_to_end(const hello &request, const options &server_opts,
                                              std::span<const client_usage> clients);

} // namespace tools::datping
