// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "report_log.hpp"

#include "debugger.hpp"
#include "format.hpp"
#include "reports/log_file.hpp"
#include "reports/suppressions.hpp"
#include "reports/text.hpp"

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

place place_of(const finding &described) {
    if (described.events.empty())
        return {described.kind, {}};
    const stack_trace &stack = described.events.back().stack;
    return {described.kind, {stack.frames.begin(), stack.frames.begin() + stack.depth}};
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
    void report(const finding &);

    struct place_counts {
        std::size_t number = 0; ///< in the order of their first findings, from 1
        std::size_t num_findings = 0;
        bool is_suppressed = false;
    };

    const settings config;
    const event_clock clock;
    std::mutex mutex; ///< protects the following
    suppressions suppressed;
    source_files sources;
    std::map<place, place_counts> places;
    std::set<std::string> notes;
    finding_counts counts;
    log_file log;
    bool has_summary = false;
};

void report_log::impl::report(const finding &reported) {
    if (has_summary)
        return;
    place_counts &counted = places[place_of(reported)];
    const bool is_new = counted.num_findings == 0;
    const std::size_t num_earlier = counted.num_findings++;
    if (is_new) {
        counted.number = places.size();
        counts.by_place.push_back(0);
    }
    ++counts.by_place[counted.number - 1];
    const bool is_printed = num_earlier < config.max_reports;
    described_finding shown;
    if (is_new || is_printed)
        shown = describe(reported, sources, clock);
    if (is_new) // all findings of a place have its functions
        counted.is_suppressed =
            suppressed.matches(describe(reported.kind).name, reported.device, shown.frames());
    if (counted.is_suppressed)
        ++counts.num_suppressed;
    else {
        ++counts.by_kind[reported.kind];
        counts.num_places += is_new ? 1 : 0;
    }
    if (!is_printed) {
        ++counts.num_repeated;
        return;
    }
    if (!counted.is_suppressed)
        write_text(STDERR_FILENO, as_text(shown));
    note_problem(log.write(as_json(shown, {.suppressed = counted.is_suppressed,
                                           .place_number = counted.number,
                                           .num_earlier = num_earlier})));
    if (!counted.is_suppressed)
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
