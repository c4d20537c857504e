// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "finding_log.hpp"

#include "format.hpp"
#include "reports/log_file.hpp"
#include "reports/suppressions.hpp"
#include "reports/text.hpp"

#include <mutex>
#include <set>
#include <tuple>
#include <unistd.h>

namespace coherdma::emulation {

using namespace reports;

namespace {

/// Findings of one site have the kind, the stack of the call where a sync is missing and the caller
/// in common, whatever the region: probably one change of the program repairs them.
using finding_site = std::tuple<finding_kind, std::vector<void *>, const void *, std::string>;

/// The site by which repeated findings are counted. If no such call is known: the stack of the
/// registration.
finding_site site_of(const finding &finding) {
    const stack_trace &place = insertion_stack(finding);
    const stack_trace &stack = place.depth != 0 ? place : finding.mr.reg_stack;
    const mem_access &cause = finding.request.text.empty() ? finding.last_sync : finding.request;
    return {finding.kind,
            {stack.frames.begin(), stack.frames.begin() + stack.depth},
            first_program_frame(cause.stack),
            cause.peer_stack.empty() ? "" : cause.peer_stack.front()};
}

} // namespace

struct finding_log::impl {
    explicit impl(const settings &log_config)
        : config(log_config)
        , log(config.log_file) {}

    struct site_counts {
        std::size_t num_reports = 0;
        bool is_place = false; ///< counted in the summary
    };

    void note(const std::string &text);
    void write_log(const std::string &line);
    void report(const finding &);
    void count(const finding &, site_counts &);

    const settings config;
    std::mutex mutex;
    reports::suppressions suppressed;
    source_files sources;
    std::map<finding_site, site_counts> sites;
    std::set<std::string> notes;
    finding_counts counts;
    reports::log_file log;
    bool has_summary = false;
};

void finding_log::impl::note(const std::string &text) {
    if (notes.insert(text).second)
        write_text(STDERR_FILENO, "coherdma: " + printable(text) + "\n");
}

void finding_log::impl::write_log(const std::string &line) {
    if (const std::string problem = log.write(line); !problem.empty())
        note(problem);
}

/// Counts a finding that is not suppressed.
void finding_log::impl::count(const finding &finding, site_counts &site) {
    ++counts.by_kind[finding.kind];
    if (finding.doubt != finding_doubt::NONE)
        ++counts.num_possible;
    if (!site.is_place)
        ++counts.num_places;
    site.is_place = true;
}

/// Prints and logs a finding, unless it is suppressed or its site has been reported often enough.
void finding_log::impl::report(const finding &finding) {
    if (config.only_certain && finding.doubt != finding_doubt::NONE)
        return;
    report_status status;
    status.suppressed =
        suppressed.matches(kind_name(finding.kind), finding.mr.device_name, all_frames_of(finding));
    site_counts &site = sites[site_of(finding)];
    status.num_earlier = site.num_reports++;
    if (status.suppressed)
        ++counts.num_suppressed;
    else
        count(finding, site);
    if (status.num_earlier >= config.max_reports) {
        ++counts.num_repeated;
        return;
    }
    const advice given = make_advice(finding, sources);
    if (!status.suppressed)
        write_text(STDERR_FILENO, as_text(finding, given));
    write_log(as_json(finding, given, status));
}

finding_log::finding_log(const settings &config)
    : impl_(std::make_unique<impl>(config)) {
    if (!config.suppressions_file.empty())
        impl_->suppressed = reports::read_suppressions(config.suppressions_file, kind_names());
    for (const std::string &problem : impl_->suppressed.problems)
        impl_->note(problem);
    if (const std::string problem = impl_->log.open(); !problem.empty())
        impl_->note(problem);
}

finding_log::~finding_log() = default;

void finding_log::report(const finding &finding) {
    const std::lock_guard<std::mutex> guard(impl_->mutex);
    impl_->report(finding);
}

void finding_log::note(const std::string &text) {
    const std::lock_guard<std::mutex> guard(impl_->mutex);
    impl_->note(text);
}

/// Writes the summary, once. Returns the number of findings that are not suppressed.
std::size_t finding_log::write_summary() {
    const std::lock_guard<std::mutex> guard(impl_->mutex);
    if (!impl_->has_summary) {
        impl_->has_summary = true;
        impl_->write_log(as_json(impl_->counts));
        write_text(STDERR_FILENO, as_text(impl_->counts));
    }
    return impl_->counts.total();
}

const char *kind_name(finding_kind kind) noexcept {
    switch (kind) {
    case finding_kind::UNSYNCED_READ:
        return "unsynced-read";
    case finding_kind::UNSYNCED_WRITE:
        return "unsynced-write";
    case finding_kind::CONFLICT:
        return "conflict";
    case finding_kind::STALE:
        return "stale";
    case finding_kind::UNSYNCED_SOURCE:
        return "unsynced-source";
    case finding_kind::UNSYNCED_SINK:
        return "unsynced-sink";
    case finding_kind::CONFLICT_SINK:
        return "conflict-sink";
    case finding_kind::STALE_SINK:
        return "stale-sink";
    case finding_kind::SHARED_LINE:
        return "shared-line";
    case finding_kind::DISCARDED:
        return "discarded";
    case finding_kind::BESIDE:
        return "beside";
    case finding_kind::REDUNDANT:
        return "redundant";
    }
    return "?";
}

std::vector<std::string> kind_names() {
    std::vector<std::string> names;
    for (const finding_kind kind : ALL_KINDS)
        names.emplace_back(kind_name(kind));
    return names;
}

const char *doubt_name(finding_doubt doubt) noexcept {
    switch (doubt) {
    case finding_doubt::NONE:
        return "";
    case finding_doubt::SAME_BYTES:
        return "same-bytes";
    case finding_doubt::MAYBE_UNREAD:
        return "maybe-unread";
    }
    return "?";
}

/// What the program lacks, for the user: the call and its place; "" if no sync is missing.
const char *missing_sync(finding_kind kind) noexcept {
    switch (kind) {
    case finding_kind::UNSYNCED_READ:
        return "sync before the Read";
    case finding_kind::UNSYNCED_WRITE:
        return "sync before the Write";
    case finding_kind::CONFLICT:
        return "sync before or after the Write";
    case finding_kind::STALE:
        return "sync after the Write";
    case finding_kind::UNSYNCED_SOURCE:
    case finding_kind::UNSYNCED_SINK:
        return "sync_for_device before the post";
    case finding_kind::CONFLICT_SINK:
        return "sync_for_device before, or sync_for_cpu after";
    case finding_kind::STALE_SINK:
        return "sync_for_cpu after the completion";
    case finding_kind::DISCARDED:
        return "sync before dereg_mr, unless the data are not needed";
    case finding_kind::SHARED_LINE:
    case finding_kind::BESIDE:
        return "separate lines for data that arrive";
    case finding_kind::REDUNDANT:
        return "";
    }
    return "?";
}

} // namespace coherdma::emulation
