// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "emulate/log.hpp"

#include "emulate/timeline.hpp"
#include "run/session.hpp"

#include <algorithm>
#include <numeric>
#include <sstream>
#include <tuple>

namespace tools::emulate {
namespace {

using json = nlohmann::ordered_json;

template <auto Field>
std::size_t sum(const std::vector<process> &processes) noexcept {
    return std::accumulate(processes.begin(), processes.end(), std::size_t{0},
                           [](std::size_t total, const process &p) { return total + p.*Field; });
}

/// The call and its callers, since one function often registers all memory.
std::vector<std::string> innermost_frames(const json &stack) {
    constexpr std::size_t FRAMES = 3;
    std::vector<std::string> frames;
    for (std::string frame : stack) {
        if (frames.size() == FRAMES)
            break;
        frames.push_back(std::move(frame));
    }
    return frames;
}

/// "" for null.
std::string text_or_empty(const json &value) {
    return value.is_null() ? "" : value.get<std::string>();
}

/// Throws if a member that the reports use is missing or of another type.
void check_place(const json &place) {
    if (place.is_null())
        return;
    std::ignore = place.at("description").get<std::string>();
    std::ignore = place_frame(place);
    for (const json &line : place.at("source")) {
        std::ignore = line.at("line").get<int>();
        std::ignore = line.at("text").get<std::string>();
    }
}

bool is_possible(const json &finding) {
    return !finding.at("doubt").is_null();
}

/// Removes the request number and process, which differ each time.
std::string strip_request_number(const std::string &description) {
    return description.substr(0, description.find(','));
}

/// The code location of a single finding.
code_location parse_location(const json &finding) {
    code_location location;
    location.kind = finding.at("kind");
    location.device = finding.at("device");
    location.missing = text_or_empty(finding.at("missing"));
    if (const json &insert = finding.at("insert"); !insert.is_null()) {
        location.insert = insert.at("text");
        location.place = text_or_empty(insert.at("place"));
    }
    location.after = finding.at("after");
    location.before = finding.at("before");
    check_place(location.after);
    check_place(location.before);
    location.suppression = finding.at("suppression");
    location.region = finding.at("region");
    location.regions = {location.region};
    location.region_name = text_or_empty(finding.at("region_name"));
    if (std::string doubt = text_or_empty(finding.at("doubt")); !doubt.empty())
        location.doubts = {std::move(doubt)};
    location.region_length = finding.at("region_length");
    location.begin = finding.at("offset");
    location.end = location.begin + finding.at("length").get<std::int64_t>();
    if (const json &request = finding.at("request"); !request.is_null()) {
        location.request = strip_request_number(request.at("description"));
        location.request_stack = innermost_frames(request.at("stack"));
    }
    if (const json &sync = finding.at("last_sync"); !sync.is_null()) {
        location.sync = sync.at("description");
        location.sync_stack = innermost_frames(sync.at("stack"));
    }
    location.registration_stack = innermost_frames(finding.at("registered"));
    return location;
}

/// Adds a line of the process's log: its summary, or a finding.
void add_record(json record, process &p, run_result &run) {
    if (record.at("coherdma") == "summary") {
        p.complete = true;
        p.findings += record.at("findings").get<std::size_t>();
        p.possible += record.at("possible").get<std::size_t>();
        p.suppressed += record.at("suppressed").get<std::size_t>();
        p.repeated += record.at("repeated").get<std::size_t>();
    } else if (parse_location(record), make_timeline(record); // throw if a field is missing
               !record.at("suppressed").get<bool>()) {
        run.findings.push_back(std::move(record));
    }
}

} // namespace

bool run_result::has_all_summaries() const noexcept {
    return std::all_of(processes.begin(), processes.end(),
                       [](const process &p) { return p.complete; });
}
std::size_t run_result::num_findings() const noexcept {
    return std::max(sum<&process::findings>(processes), findings.size());
}
std::size_t run_result::num_possible() const noexcept {
    const auto logged = std::count_if(findings.begin(), findings.end(), is_possible);
    return std::max(sum<&process::possible>(processes), static_cast<std::size_t>(logged));
}
std::size_t run_result::num_suppressed() const noexcept {
    return sum<&process::suppressed>(processes);
}
std::size_t run_result::num_repeated() const noexcept {
    return sum<&process::repeated>(processes);
}

/// Adds the process and its findings; a line that is not a valid record makes it incomplete.
void read_log(const std::string &text, long pid, run_result &run) {
    process p;
    p.pid = pid;
    bool is_valid = true;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        try {
            add_record(json::parse(line), p, run);
        } catch (const json::exception &) {
            is_valid = false;
        }
    }
    p.complete = p.complete && is_valid;
    run.processes.push_back(p);
}

/// Each process of the run wrote a file PID.json.
void read_logs(const std::string &folder, run_result &result) {
    for (const auto &[pid, file] : run::list_process_logs(folder))
        read_log(run::read_file(file), pid, result);
}

/// Findings with the same key are probably fixed by the same change. The length of a request may
/// differ, and, if it is known where to insert a call, the memory.
std::vector<code_location> group_findings(const std::vector<run_result> &runs) {
    std::vector<code_location> locations;
    const auto key = [](const code_location &l) {
        return std::make_tuple(l.kind, l.device, l.missing, l.place,
                               l.request.substr(0, l.request.find(" of ")), l.request_stack,
                               l.place.empty() ? l.registration_stack : std::vector<std::string>{});
    };
    for (const run_result &run : runs) {
        for (const json &finding : run.findings) {
            const code_location location = parse_location(finding);
            auto it = std::find_if(locations.begin(), locations.end(),
                                   [&](const code_location &l) { return key(l) == key(location); });
            if (it == locations.end())
                it = locations.insert(it, location);
            it->begin = std::min(it->begin, location.begin);
            it->end = std::max(it->end, location.end);
            it->regions.insert(location.region);
            it->doubts.insert(location.doubts.begin(), location.doubts.end());
            it->num_possible += is_possible(finding) ? 1U : 0U;
            ++it->num_findings;
            ++it->num_findings_by_mode[run.emulation_mode];
            it->findings.push_back({run.emulation_mode, &finding});
        }
    }
    std::stable_sort(
        locations.begin(), locations.end(), [](const code_location &a, const code_location &b) {
            const bool is_certain = a.num_possible < a.num_findings,
                       other_is_certain = b.num_possible < b.num_findings;
            return is_certain != other_is_certain ? is_certain : a.num_findings > b.num_findings;
        });
    return locations;
}

std::vector<std::string> frames_of(const std::vector<code_location> &locations) {
    std::vector<std::string> frames;
    for (const code_location &location : locations)
        for (const auto *stack :
             {&location.request_stack, &location.sync_stack, &location.registration_stack})
            frames.insert(frames.end(), stack->begin(), stack->end());
    return frames;
}

std::string describe_doubts(const code_location &location) {
    std::string text = location.num_possible == location.num_findings
                           ? ""
                           : std::to_string(location.num_possible) + " of " +
                                 std::to_string(location.num_findings) + ": ";
    const std::size_t begin = text.size();
    for (const std::string &doubt : location.doubts)
        text += (text.size() == begin ? "" : ", or ") +
                (doubt == "same-bytes"     ? "the bytes were the same this time"
                 : doubt == "maybe-unread" ? "nothing shows that the program read them"
                                           : doubt);
    return text;
}

} // namespace tools::emulate
