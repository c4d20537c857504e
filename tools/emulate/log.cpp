// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "emulate/log.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <tuple>

namespace tools::emulate {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;

template <auto field>
std::size_t sum(const std::vector<process> &all) noexcept {
    return std::accumulate(all.begin(), all.end(), std::size_t{0},
                           [](std::size_t of, const process &each) { return of + each.*field; });
}

/// The call and whence it came: one function often registers all memory.
std::vector<std::string> innermost(const json &stack) {
    constexpr std::size_t FRAMES = 3;
    std::vector<std::string> all;
    for (std::string each : stack) {
        if (all.size() == FRAMES || each.find("/libc.so") != std::string::npos)
            break; // what called main says nothing
        all.push_back(std::move(each));
    }
    return all;
}

/// The words of a request have its number and its process, which are never the same.
std::string without_number(const std::string &words) {
    return words.substr(0, words.find(','));
}

place place_of(const json &finding) {
    place one;
    one.kind = finding.at("kind");
    one.device = finding.at("device");
    one.missing = finding.at("missing").is_null() ? "" : finding.at("missing");
    one.region = finding.at("region");
    one.region_length = finding.at("region_length");
    one.begin = finding.at("offset");
    one.end = one.begin + finding.at("length").get<std::int64_t>();
    if (const json &request = finding.at("request"); !request.is_null()) {
        one.request = without_number(request.at("words"));
        one.request_at = innermost(request.at("stack"));
    }
    if (const json &sync = finding.at("last_sync"); !sync.is_null()) {
        one.sync = sync.at("words");
        one.sync_at = innermost(sync.at("stack"));
    }
    one.registered_at = innermost(finding.at("registered"));
    return one;
}

void take(json record, process &of, run_result &into) {
    if (record.at("coherdma") == "summary") {
        of.complete = true;
        of.findings += record.at("findings").get<std::size_t>();
        of.suppressed += record.at("suppressed").get<std::size_t>();
        of.repeated += record.at("repeated").get<std::size_t>();
    } else if (place_of(record);
               !record.at("suppressed").get<bool>()) { // it has what a place needs
        into.findings.push_back(std::move(record));
    }
}

} // namespace

bool run_result::complete() const noexcept {
    return std::all_of(processes.begin(), processes.end(),
                       [](const process &each) { return each.complete; });
}
std::size_t run_result::count() const noexcept {
    return std::max(sum<&process::findings>(processes), findings.size());
}
std::size_t run_result::suppressed() const noexcept {
    return sum<&process::suppressed>(processes);
}
std::size_t run_result::repeated() const noexcept {
    return sum<&process::repeated>(processes);
}

void read_log(const std::string &text, long pid, run_result &into) {
    process of;
    of.pid = pid;
    bool whole = true;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        try {
            take(json::parse(line), of, into);
        } catch (const json::exception &) {
            whole = false;
        }
    }
    of.complete = of.complete && whole;
    into.processes.push_back(of);
}

void read_logs(const std::string &folder, run_result &into) {
    std::map<long, fs::path> files; // in the order in which processes began, most likely
    for (const auto &each : fs::directory_iterator(folder)) {
        const std::string name = each.path().filename();
        long pid = 0;
        const auto [rest, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
        if (error == std::errc{} && rest == std::string_view(".json"))
            files[pid] = each.path();
    }
    for (const auto &[pid, file] : files) {
        std::ifstream in(file, std::ios::binary);
        std::ostringstream text;
        if (in.peek() != std::ifstream::traits_type::eof())
            text << in.rdbuf();
        if (in.bad() || text.fail())
            throw std::runtime_error("cannot read " + file.string());
        read_log(text.str(), pid, into);
    }
}

std::vector<place> places_of(const std::vector<run_result> &all) {
    std::vector<place> found;
    const auto same = [](const place &one) {
        return std::tie(one.kind, one.device, one.missing, one.region, one.region_length,
                        one.request, one.request_at, one.registered_at);
    };
    for (const run_result &run : all) {
        for (const json &finding : run.findings) {
            const place one = place_of(finding);
            auto known = std::find_if(found.begin(), found.end(),
                                      [&](const place &each) { return same(each) == same(one); });
            if (known == found.end())
                known = found.insert(known, one);
            known->begin = std::min(known->begin, one.begin);
            known->end = std::max(known->end, one.end);
            ++known->times;
            ++known->by[run.mode];
        }
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const place &one, const place &other) { return one.times > other.times; });
    return found;
}

} // namespace tools::emulate
