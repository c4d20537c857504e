// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "report_log.hpp"

#include "debugger.hpp"
#include "format.hpp"
#include "reports/log_file.hpp"
#include "reports/suppressions.hpp"
#include "reports/text.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <unistd.h>
#include <utility>

namespace coherdma::check {
namespace {

using namespace reports;

/// Findings of one kind by one call of the program have a place in common.
using place = std::pair<finding_kind, std::vector<void *>>;

/// Of the call.
std::vector<void *> frames_of(const finding &described) {
    if (described.events.empty())
        return {};
    const stack_trace &stack = described.events.back().stack;
    return {stack.frames.begin(), stack.frames.begin() + stack.depth};
}

/// From the innermost frame to the program's first one, whatever has called that.
place place_of(const finding &described) {
    std::vector<void *> frames = frames_of(described);
    if (!frames.empty()) {
        const auto of_program = std::find(frames.begin(), frames.end(),
                                          first_program_frame(described.events.back().stack));
        if (of_program != frames.end())
            frames.erase(of_program + 1, frames.end());
    }
    return {described.kind, std::move(frames)};
}

/// What a rule of the suppressions may depend on: the kind, the device and all stacks.
using matched_parts = std::pair<std::pair<finding_kind, std::string>, std::vector<void *>>;

matched_parts matched_parts_of(const finding &described) {
    matched_parts parts = {{described.kind, described.device}, {}};
    for (const call_event &event : described.events) {
        const stack_trace &stack = event.stack;
        parts.second.insert(parts.second.end(), stack.frames.begin(),
                            stack.frames.begin() + stack.depth);
        parts.second.push_back(nullptr); // the end of this stack
    }
    return parts;
}

std::vector<std::string> kind_names() {
    std::vector<std::string> names;
    for (const finding_kind kind : ALL_KINDS)
        names.emplace_back(describe(kind).name);
    return names;
}

} // namespace

struct report_log::impl {
    explicit impl(const settings &log_config)
        : config(log_config)
        , log(config.log_file) {}

    void note(const std::string &text) {
        if (notes.insert(text).second)
            write_text(STDERR_FILENO, "coherdma check: " + printable(text) + "\n");
    }
    void note_problem(const std::string &problem) {
        if (!problem.empty())
            note(problem);
    }
    struct place_counts {
        std::size_t number = 0; ///< in the order of their first findings, from 1
        std::size_t num_shown = 0, num_suppressed = 0;
    };
    void report(const finding &);
    place_counts &count_at(const finding &);
    /// Describes the finding if that is needed to know it.
    bool is_suppressed(const finding &, described_finding &);
    void describe_once(const finding &reported, described_finding &shown) {
        if (shown.title.empty())
            shown = describe(reported, sources, clock);
    }

    const settings config;
    const event_clock clock;
    std::mutex mutex; ///< protects the following
    suppressions suppressed;
    std::map<matched_parts, bool> matches; ///< whether a rule matches
    source_files sources;
    std::map<place, place_counts> places;             ///< of the kind and these frames
    std::map<place, place_counts *> places_of_stacks; ///< of the kind and whole stacks
    std::set<std::string> notes;
    finding_counts counts;
    log_file log;
    bool has_summary = false;
};

report_log::impl::place_counts &report_log::impl::count_at(const finding &reported) {
    place_counts *&known = places_of_stacks[{reported.kind, frames_of(reported)}];
    if (known == nullptr) { // else no symbol is looked up
        known = &places[place_of(reported)];
        if (known->number == 0) {
            known->number = places.size();
            counts.by_place.push_back(0);
        }
    }
    return *known;
}

bool report_log::impl::is_suppressed(const finding &reported, described_finding &shown) {
    if (suppressed.rules.empty())
        return false;
    const auto [match, is_new] = matches.try_emplace(matched_parts_of(reported));
    if (is_new) {
        describe_once(reported, shown);
        match->second =
            suppressed.matches(describe(reported.kind).name, reported.device, shown.frames());
    }
    return match->second;
}

void report_log::impl::report(const finding &reported) {
    if (has_summary)
        return;
    described_finding shown;
    const bool hides = is_suppressed(reported, shown);
    place_counts &counted = count_at(reported);
    std::size_t &num_similar = hides ? counted.num_suppressed : counted.num_shown;
    const std::size_t num_earlier = num_similar++;
    if (hides)
        ++counts.num_suppressed;
    else {
        ++counts.by_kind[reported.kind];
        ++counts.by_place[counted.number - 1];
        counts.num_places += num_earlier == 0 ? 1 : 0;
    }
    if (num_earlier >= config.max_reports) {
        ++counts.num_repeated;
        return;
    }
    describe_once(reported, shown);
    if (!hides)
        write_text(STDERR_FILENO, as_text(shown));
    note_problem(log.write(as_json(
        shown, {.suppressed = hides, .place_number = counted.number, .num_earlier = num_earlier})));
    if (!hides)
        stop_debugger(reported);
}

report_log::report_log(const settings &config)
    : impl_(std::make_unique<impl>(config)) {
    if (!config.suppressions_file.empty())
        impl_->suppressed = read_suppressions(config.suppressions_file, kind_names());
    for (const std::string &problem : impl_->suppressed.problems)
        impl_->note(problem);
    impl_->note_problem(impl_->log.open());
}

report_log::~report_log() = default;

void report_log::report(const finding &reported) {
    const std::lock_guard guard(impl_->mutex);
    impl_->report(reported);
}

void report_log::note_device() {
    const std::lock_guard guard(impl_->mutex);
    impl_->counts.has_device = true;
}

void report_log::note(const std::string &text) {
    const std::lock_guard guard(impl_->mutex);
    impl_->note(text);
}

std::size_t report_log::write_summary() {
    const std::lock_guard guard(impl_->mutex);
    if (!impl_->has_summary) {
        impl_->has_summary = true;
        impl_->note_problem(impl_->log.write(as_json(impl_->counts)));
        write_text(STDERR_FILENO, as_text(impl_->counts));
    }
    return impl_->counts.total();
}

} // namespace coherdma::check
