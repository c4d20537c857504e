// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "datping/report/report.hpp"

#include <algorithm>
#include <fmt/core.h>

namespace tools::datping {
namespace {

const char *yes_or_no(bool value) {
    return value ? "yes" : "no";
}

std::string format_rows(const client_result &result) {
    std::string text = fmt::format("{:<9} {:>10} {:>8}  {:>11} {:>11} {:>11} {:>11}\n", "MODE",
                                   "ROUNDS", "WRONG", "MIN us", "MEDIAN us", "P99 us", "MAX us");
    for (const mode_result &m : result.modes) {
        const auto latencies = m.times.summarize();
        text +=
            fmt::format("{:<9} {:>10} {:>8}", mode_name(m.mode), m.times.count(), m.wrong_rounds);
        if (m.times.count() == 0)
            text += fmt::format("  {:>11} {:>11} {:>11} {:>11}\n", "-", "-", "-", "-");
        else
            text += fmt::format("  {:>11.1f} {:>11.1f} {:>11.1f} {:>11.1f}\n", latencies.min,
                                latencies.median, latencies.p99, latencies.max);
    }
    return text;
}

std::uint64_t sum_modes(const client_result &result, std::uint64_t (*count)(const mode_result &)) {
    std::uint64_t total = 0;
    for (const mode_result &m : result.modes)
        total += count(m);
    return total;
}

} // namespace

bool client_result::is_good() const {
    const auto has_wrong_data = [](const mode_result &m) {
        return m.wrong_rounds > 0;
    };
    const auto has_rounds = [](const mode_result &m) {
        return m.times.count() > 0;
    };
    return problem.empty() && std::any_of(modes.begin(), modes.end(), has_rounds) &&
           std::none_of(modes.begin(), modes.end(), has_wrong_data);
}

void server_result::add(const served_client &client) {
    ++served;
    if (client.wrong_rounds > 0 || !client.problem.empty())
        ++failed;
    if (clients.size() < MAX_LISTED_CLIENTS)
        clients.push_back(client);
}

std::string describe_mismatch(mode round_mode, std::uint64_t round, std::uint64_t size,
                              const data_mismatch &mismatch, const char *side) {
    return fmt::format("round {} ({}): {} of {} bytes wrong {}; at {} is {:#04x}, not {:#04x}",
                       round, mode_name(round_mode), mismatch.count, size, side,
                       mismatch.first_offset, mismatch.actual, mismatch.expected);
}

std::string format_header(const options &opts, const client_result &result) {
    const std::string addr_suffix =
        result.host == result.address ? "" : fmt::format(" ({})", result.address);
    return fmt::format("DATPING {}{}: {} bytes, {}verified\n"
                       "IA {} ({}), qualifier {}, lmr_sync_req: {} here, {} there\n",
                       result.host, addr_suffix, opts.size, opts.verify ? "" : "not ", result.ia,
                       result.ia_address, opts.qualifier, yes_or_no(result.local_needs_sync),
                       yes_or_no(result.peer_needs_sync));
}

std::string format_summary(const options &opts, const client_result &result) {
    const auto rounds = sum_modes(result, [](const mode_result &m) { return m.times.count(); });
    const auto wrong_rounds =
        sum_modes(result, [](const mode_result &m) { return m.wrong_rounds; });
    const std::string outcome = !opts.verify       ? "data not verified"
                                : wrong_rounds > 0 ? fmt::format("{} WRONG", wrong_rounds)
                                : rounds > 0       ? "all data right"
                                                   : "no data";
    return fmt::format("--- {} datping: {} round{} in {:.3f} s, {} ---\n{}", result.host, rounds,
                       rounds == 1 ? "" : "s", result.seconds, outcome, format_rows(result));
}

} // namespace tools::datping
