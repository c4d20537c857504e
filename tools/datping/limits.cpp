// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "datping/limits.hpp"

#include <algorithm>
#include <fmt/core.h>

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
                                       std::span<const std::uint64_t> sizes) {
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
    if (sizes.size() >= MAX_CLIENTS)
        return rejection{reject_reason::BUSY,
                         fmt::format("{} clients are connected", sizes.size())};
    const std::uint64_t max_small = max_small_size(server_opts);
    const auto num_large = static_cast<std::size_t>(std::count_if(
        sizes.begin(), sizes.end(), [max_small](std::uint64_t size) { return size > max_small; }));
    if (request.size > max_small && num_large >= MAX_LARGE_CLIENTS)
        return rejection{reject_reason::RESOURCES,
                         fmt::format("it requests {} bytes, and {} clients have more than {}",
                                     request.size, num_large, max_small)};
    return {};
}

} // namespace tools::datping
