// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "check/log.hpp"

#include "reports/source.hpp"
#include "run/session.hpp"
#include "text.hpp"

#include <algorithm>
#include <sstream>
#include <tuple>

namespace tools::check {
namespace {

using json = nlohmann::ordered_json;

template <auto Field>
std::size_t sum(const std::vector<process> &processes) noexcept {
    std::size_t total = 0;
    for (const process &p : processes)
        total += p.*Field;
    return total;
}

bool is_error(const json &finding) {
    return finding.at("level") != "warning";
}

/// How many of these findings were logged as errors, or as warnings.
std::size_t count_logged(const std::vector<logged_finding> &findings, bool counts_errors) noexcept {
    return static_cast<std::size_t>(
        std::count_if(findings.begin(), findings.end(), [&](const logged_finding &finding) {
            return is_error(finding.json) == counts_errors;
        }));
}

/// Throws unless it is a text, or null if that is permitted.
void check_text(const json &value, bool may_be_null = false) {
    if (!may_be_null || !value.is_null())
        std::ignore = value.get<std::string>();
}

/// The call of a finding or of an event.
void check_call(const json &call) {
    check_text(call.at("function"), true);
    check_text(call.at("file"), true);
    if (!call.at("line").is_null())
        std::ignore = call.at("line").get<int>();
}

const json::array_t &array_of(const json &object, const char *member) {
    return object.at(member).get_ref<const json::array_t &>();
}

/// Throws if a member that the reports use is missing or of another type.
void check_finding(const json &finding) {
    for (const char *member : {"kind", "level", "device", "title", "why", "fix", "suppression"})
        check_text(finding.at(member));
    if (const json &place = finding.at("place"); !place.is_null()) {
        check_call(place);
        for (const json &line : array_of(place, "source")) {
            std::ignore = line.at("line").get<int>();
            check_text(line.at("text"));
        }
    }
    for (const json &event : array_of(finding, "events")) {
        check_text(event.at("description"));
        check_text(event.value("posted", json()), true);
        if (const json time = event.value("time", json()); !time.is_null())
            std::ignore = time.get<double>();
        check_call(event);
        for (const json &frame : array_of(event, "stack"))
            check_text(frame);
    }
    std::ignore = finding.at("repeated").get<std::size_t>();
    std::ignore = finding.value("place_number", std::size_t{0});
    std::ignore = finding.at("suppressed").get<bool>();
    std::ignore = finding.at("pid").get<long>();
    std::ignore = finding.at("time").get<double>();
}

/// Gives the first finding of each place, of those from this one on, the findings that were only
/// counted. counts: of the place with the number 1, 2, ...
void add_counts(std::vector<logged_finding> &findings, std::size_t begin,
                const std::vector<std::size_t> &counts) {
    std::map<std::size_t, logged_finding *> first_by_place;
    for (std::size_t i = begin; i < findings.size(); ++i) {
        const std::size_t number = findings[i].json.value("place_number", std::size_t{0});
        const auto [it, is_first] = first_by_place.try_emplace(number, &findings[i]);
        if (is_first && number > 0 && number <= counts.size())
            findings[i].count = std::max<std::size_t>(counts[number - 1], 1);
        else if (!is_first && it->second->count > 1)
            --it->second->count;
    }
}

/// The log of a process. It has a summary for each program that the process executes.
class log_reader {
  public:
    log_reader(process &p, run_result &result)
        : process_(p)
        , result_(result)
        , begin_(result.findings.size()) {}

    /// Adds a line: a summary, or a finding. Throws if it is invalid; then nothing of it is added.
    void add(json record) {
        if (record.contains("summary"))
            add_summary(record.at("summary"));
        else if (check_finding(record); !record.at("suppressed").get<bool>())
            result_.findings.push_back({std::move(record)});
    }

  private:
    void add_summary(const json &summary) {
        process sums = process_;
        sums.has_device = (sums.complete && sums.has_device) || summary.value("device", true);
        sums.complete = true;
        sums.errors += summary.at("errors").get<std::size_t>();
        sums.warnings += summary.at("warnings").get<std::size_t>();
        sums.suppressed += summary.at("suppressed").get<std::size_t>();
        sums.repeated += summary.at("repeated").get<std::size_t>();
        const auto by_kind = summary.at("by_kind").get<std::map<std::string, std::size_t>>();
        add_counts(result_.findings, begin_, summary.value("by_place", std::vector<std::size_t>{}));
        for (const auto &[kind, count] : by_kind)
            result_.by_kind[kind] += count;
        process_ = sums;
        begin_ = result_.findings.size();
    }

    process &process_;
    run_result &result_;
    std::size_t begin_; ///< the first finding since the last summary
};

/// The first frame of the finding's last event, which is the wrong call, unless its place is known.
std::string place_of(const json &finding) {
    if (const json &place = finding.at("place");
        !place.is_null() && !place.at("file").is_null() && !place.at("line").is_null())
        return frame_of(place);
    if (const json &events = finding.at("events"); !events.empty())
        if (const json &stack = events.back().at("stack"); !stack.empty())
            return stack.front().get<std::string>();
    return finding.at("place").is_null() ? "" : frame_of(finding.at("place"));
}

} // namespace

bool run_result::was_checked() const noexcept {
    return !findings.empty() || std::any_of(processes.begin(), processes.end(),
                                            [](const process &p) { return p.has_device; });
}
bool run_result::has_all_summaries() const noexcept {
    return std::all_of(processes.begin(), processes.end(),
                       [](const process &p) { return p.complete; });
}
std::size_t run_result::num_errors() const noexcept {
    return std::max(sum<&process::errors>(processes), count_logged(findings, true));
}
std::size_t run_result::num_warnings() const noexcept {
    return std::max(sum<&process::warnings>(processes), count_logged(findings, false));
}
std::size_t run_result::num_suppressed() const noexcept {
    return sum<&process::suppressed>(processes);
}
std::size_t run_result::num_repeated() const noexcept {
    return sum<&process::repeated>(processes);
}

std::string frame_of(const json &place) {
    const json &function = place.at("function"), &file = place.at("file");
    std::string frame = function.is_null() ? "??" : function.get<std::string>();
    if (!file.is_null())
        frame +=
            " (" + file.get<std::string>() +
            (place.at("line").is_null() ? "" : ":" + std::to_string(place.at("line").get<int>())) +
            ")";
    return frame;
}

void read_log(const std::string &text, long pid, run_result &result) {
    process p;
    p.pid = pid;
    bool is_valid = true;
    log_reader reader(p, result);
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        try {
            reader.add(json::parse(line));
        } catch (const json::exception &) {
            is_valid = false;
        }
    }
    p.complete = p.complete && is_valid;
    result.processes.push_back(p);
}

void read_logs(const std::string &folder, run_result &result) {
    for (const auto &[pid, file] : run::list_process_logs(folder))
        read_log(run::read_file(file), pid, result);
}

std::vector<finding_place> group_findings(const run_result &result) {
    std::vector<finding_place> places;
    for (const logged_finding &logged : result.findings) {
        const json &finding = logged.json;
        const std::string kind = finding.at("kind"), frame = place_of(finding);
        auto it = std::find_if(places.begin(), places.end(), [&](const finding_place &place) {
            return place.kind == kind && place.frame == frame;
        });
        if (it == places.end())
            it = places.insert(it, {.kind = kind,
                                    .is_error = is_error(finding),
                                    .frame = frame,
                                    .title = finding.at("title"),
                                    .suppression = finding.at("suppression"),
                                    .devices = {},
                                    .findings = {}});
        it->devices.insert(finding.at("device").get<std::string>());
        it->num_findings += logged.count;
        it->findings.push_back(&finding);
    }
    std::stable_sort(
        places.begin(), places.end(), [](const finding_place &a, const finding_place &b) {
            return a.is_error != b.is_error ? a.is_error : a.num_findings > b.num_findings;
        });
    return places;
}

/// "rping+0x12" of "?? (rping+0x12)"
std::string without_unknown_function(const std::string &frame) {
    return frame.starts_with("?? (") && frame.ends_with(')') ? frame.substr(4, frame.size() - 5)
                                                             : frame;
}

std::string describe_place(const finding_place &place) {
    using namespace coherdma::reports;
    const source_frame frame = parse_frame(place.frame);
    if (frame.file.empty())
        return place.frame.empty() ? "?" : without_unknown_function(shorten_frame(place.frame));
    return base_name(frame.file) + ":" + std::to_string(frame.line) + " in " + frame.function;
}

std::vector<std::string> frames_of(const run_result &result) {
    constexpr std::size_t MAX_FRAMES = 3;
    std::vector<std::string> frames;
    for (const logged_finding &finding : result.findings)
        for (const json &event : finding.json.at("events")) {
            const json &stack = event.at("stack");
            for (std::size_t i = 0; i < std::min(stack.size(), MAX_FRAMES); ++i)
                frames.push_back(stack[i]);
        }
    return frames;
}

} // namespace tools::check
