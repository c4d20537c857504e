// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "datping/report.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace tools::datping {
namespace {

const char *yes(bool is) {
    return is ? "yes" : "no";
}

std::string rows(const client_result &all) {
    std::string text = fmt::format("{:<9} {:>10} {:>8}  {:>11} {:>11} {:>11} {:>11}\n", "MODE",
                                   "ROUNDS", "WRONG", "MIN us", "MEDIAN us", "P99 us", "MAX us");
    for (const mode_result &each : all.modes) {
        const auto times = each.times.summarize();
        text +=
            fmt::format("{:<9} {:>10} {:>8}", name_of(each.mode), each.times.count(), each.wrong);
        if (each.times.count() == 0)
            text += fmt::format("  {:>11} {:>11} {:>11} {:>11}\n", "-", "-", "-", "-");
        else
            text += fmt::format("  {:>11.1f} {:>11.1f} {:>11.1f} {:>11.1f}\n", times.least,
                                times.median, times.p99, times.largest);
    }
    return text;
}

std::uint64_t sum(const client_result &all, std::uint64_t (*of)(const mode_result &)) {
    std::uint64_t total = 0;
    for (const mode_result &each : all.modes)
        total += of(each);
    return total;
}

} // namespace

bool client_result::good() const {
    const auto wrong = [](const mode_result &each) {
        return each.wrong > 0;
    };
    const auto some = [](const mode_result &each) {
        return each.times.count() > 0;
    };
    return problem.empty() && std::any_of(modes.begin(), modes.end(), some) &&
           std::none_of(modes.begin(), modes.end(), wrong);
}

bool server_result::good() const {
    return std::all_of(clients.begin(), clients.end(), [](const served_client &each) {
        return each.wrong == 0 && each.problem.empty();
    });
}

std::string describe(mode which, std::uint64_t round, std::uint64_t size, const damage &found,
                     const char *where) {
    return fmt::format("round {} ({}): {} of {} bytes wrong {}; at {} is {:#04x}, not {:#04x}",
                       round, name_of(which), found.count, size, where, found.first, found.got,
                       found.wanted);
}

std::string header(const options &asked, const client_result &all) {
    const std::string numbers = all.host == all.address ? "" : fmt::format(" ({})", all.address);
    return fmt::format("DATPING {}{}: {} bytes, {}verified\n"
                       "IA {} ({}), qualifier {}, lmr_sync_req: {} here, {} there\n",
                       all.host, numbers, asked.size, asked.verify ? "" : "not ", all.ia,
                       all.ia_address, asked.qualifier, yes(all.sync_here), yes(all.sync_there));
}

std::string summary(const options &asked, const client_result &all) {
    const auto rounds = sum(all, [](const mode_result &each) { return each.times.count(); });
    const auto wrong = sum(all, [](const mode_result &each) { return each.wrong; });
    const std::string verdict = !asked.verify ? "data not verified"
                                : wrong > 0   ? fmt::format("{} WRONG", wrong)
                                : rounds > 0  ? "all data right"
                                              : "no data";
    return fmt::format("--- {} datping: {} round{} in {:.3f} s, {} ---\n{}", all.host, rounds,
                       rounds == 1 ? "" : "s", all.seconds, verdict, rows(all));
}

} // namespace tools::datping
