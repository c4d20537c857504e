// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "finding_log.hpp"

#include "format.hpp"
#include "suppressions.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <set>
#include <tuple>
#include <unistd.h>

namespace coherdma::emulation {
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

std::string expand_pid(std::string name) {
    const std::string pid = std::to_string(getpid());
    for (std::size_t pos = 0; (pos = name.find("%p", pos)) != std::string::npos; pos += pid.size())
        name.replace(pos, 2, pid);
    return name;
}

/// By one write() if possible: other processes may write to the same file.
void write_text(int fd, const std::string &text) noexcept {
    while (write(fd, text.data(), text.size()) < 0 && errno == EINTR) {
    }
}

} // namespace

struct finding_log::impl {
    explicit impl(const settings &log_config)
        : config(log_config) {}
    ~impl() {
        if (log_fd >= 0)
            close(log_fd);
    }
    impl(const impl &) = delete;
    impl &operator=(const impl &) = delete;

    struct site_counts {
        std::size_t num_reports = 0;
        bool is_place = false; ///< counted in the summary
    };

    void note(const std::string &text);
    void open_log();
    void write_log(const std::string &line);
    void report(const finding &);
    void count(const finding &, site_counts &);

    const settings config;
    std::mutex mutex;
    suppressions suppressed;
    source_files sources;
    std::map<finding_site, site_counts> sites;
    std::set<std::string> notes;
    finding_counts counts;
    int log_fd = -1;
    pid_t log_pid = 0; ///< the process that opened log_fd
    bool has_summary = false;
};

void finding_log::impl::note(const std::string &text) {
    if (notes.insert(text).second)
        write_text(STDERR_FILENO, "coherdma: " + printable(text) + "\n");
}

/// Once in each process: a child of fork() may have another name for it.
void finding_log::impl::open_log() {
    if (config.log_file.empty() || log_pid == getpid())
        return;
    if (log_fd >= 0)
        close(log_fd);
    log_pid = getpid();
    const std::string log_name = expand_pid(config.log_file);
    const int fd = open(log_name.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    // If the program has closed stderr, the log must not get its descriptor.
    log_fd = fd >= 0 && fd <= STDERR_FILENO ? fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1) : fd;
    const int error = errno;
    if (fd >= 0 && log_fd != fd)
        close(fd);
    if (log_fd < 0)
        note("cannot write findings to " + log_name + ": " + std::strerror(error));
}

void finding_log::impl::write_log(const std::string &line) {
    open_log();
    if (log_fd >= 0)
        write_text(log_fd, line);
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
    status.suppressed = suppressed.matches(finding);
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
        impl_->suppressed = read_suppressions(config.suppressions_file);
    for (const std::string &problem : impl_->suppressed.problems)
        impl_->note(problem);
    impl_->open_log();
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
