// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What a server grants to its clients. All clients together have memory for MAX_LARGE_CLIENTS of
// the maximum size, and for small ones in the other slots.
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

struct rejection {
    reject_reason reason;
    std::string description; ///< for the server's output
};
/// Why the server rejects a client with this request; nothing: it accepts. sizes: of its clients.
std::optional<rejection> check_request(const hello &request, const options &server_opts,
                                       std::span<const std::uint64_t> sizes);

} // namespace tools::datping
