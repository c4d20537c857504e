// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "datping/limits.hpp"

#include <algorithm>
#include <fmt/core.h>
#include <vector>

namespace tools::datping {
namespace {

double seconds(std::chrono::milliseconds duration) {
    return static_cast<double>(duration.count()) / 1000;
}

} // namespace

std::uint64_t max_small_size(const options &server_opts) {
    constexpr std::uint64_t ALWAYS_SMALL = std::uint64_t{1} << 20;
    return std::max(ALWAYS_SMALL, server_opts.size / MAX_CLIENTS);
}

std::optional<rejection> check_request(const hello &request, const options &server_opts,
                                       std::span<const client_usage> clients) {
    if (request.size > server_opts.size)
        return rejection{reject_reason::SIZE,
                         fmt::format("it requests {} bytes, more than {}; -S changes the limit",
                                     request.size, server_opts.size)};
    if (const std::chrono::milliseconds silence(request.max_silence_ms);
        silence > server_opts.interval)
        return rejection{
            reject_reason::INTERVAL,
            fmt::format("it pauses for up to {:.10g} s, more than {:.10g}; -i changes the limit",
                        seconds(silence), seconds(server_opts.interval))};
    if (clients.size() >= MAX_CLIENTS)
        return rejection{reject_reason::BUSY,
                         fmt::format("{} clients are connected", clients.size())};
    const std::uint64_t max_small = max_small_size(server_opts);
    const auto num_large = static_cast<std::size_t>(
        std::count_if(clients.begin(), clients.end(),
                      [max_small](const client_usage &client) { return client.size > max_small; }));
    if (request.size > max_small && num_large >= MAX_LARGE_CLIENTS)
        return rejection{reject_reason::RESOURCES,
                         fmt::format("it requests {} bytes, and {} clients have more than {}",
                                     request.size, num_large, max_small)};
    return {};
}

std::optional<std::size_t> find_client_to_end(const hello &request, const options &server_opts,
                                              std::span<const client_usage> clients) {
    std::optional<std::size_t> longest;
    for (std::size_t i = 0; i < clients.size(); ++i) {
        const auto min_pause = longest ? clients[*longest].pause : server_opts.timeout;
        if (clients[i].pause <= min_pause)
            continue;
        std::vector<client_usage> others(clients.begin(), clients.end());
        others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
        if (!check_request(request, server_opts, others))
            longest = i;
    }
    return longest;
}

} // namespace tools::datping
