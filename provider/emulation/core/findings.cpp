// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "findings.hpp"

#include "report.hpp"
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

/// Those of one site: the same kind, the memory registered at one place, from one call.
using site = std::tuple<kind, std::vector<void *>, const void *, std::string>;

site site_of(const finding &which) {
    const trace &made = which.in.registered;
    const deed &by = which.request.words.empty() ? which.last_sync : which.request;
    return {which.is,
            {made.at.begin(), made.at.begin() + made.depth},
            first_of_program(by.where),
            by.there.empty() ? "" : by.there.front()};
}

std::string expanded(std::string name) {
    const std::string process = std::to_string(getpid());
    for (std::size_t at = 0; (at = name.find("%p", at)) != std::string::npos; at += process.size())
        name.replace(at, 2, process);
    return name;
}

/// In one piece, as far as the system can: other processes write there, too.
void put(int file, const std::string &text) noexcept {
    while (write(file, text.data(), text.size()) < 0 && errno == EINTR) {
    }
}

} // namespace

struct findings::inside {
    explicit inside(const settings &by)
        : asked(by) {}
    ~inside() {
        if (log >= 0)
            close(log);
    }
    inside(const inside &) = delete;
    inside &operator=(const inside &) = delete;

    void note(const std::string &text);
    void open_log();
    void write_log(const std::string &line);
    void tell(const finding &);

    const settings asked;
    std::mutex guard;
    suppressions known;
    std::map<site, std::size_t> seen;
    std::set<std::string> noted;
    counts all;
    int log = -1;
    pid_t opened_by = 0;
    std::string log_name;
    bool finished = false;
};

void findings::inside::note(const std::string &text) {
    if (noted.insert(text).second)
        put(STDERR_FILENO, "coherdma: " + printable(text) + "\n");
}

/// Once in each process: a child's name may be another.
void findings::inside::open_log() {
    if (asked.log.empty() || opened_by == getpid())
        return;
    if (log >= 0)
        close(log);
    opened_by = getpid();
    log_name = expanded(asked.log);
    const int file = open(log_name.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    // Not in the place of a stderr that the program has closed.
    log =
        file >= 0 && file <= STDERR_FILENO ? fcntl(file, F_DUPFD_CLOEXEC, STDERR_FILENO + 1) : file;
    const int error = errno;
    if (file >= 0 && log != file)
        close(file);
    if (log < 0) {
        note("cannot write findings to " + log_name + ": " + std::strerror(error));
        log_name.clear();
    }
}

void findings::inside::write_log(const std::string &line) {
    open_log();
    if (log >= 0)
        put(log, line);
}

void findings::inside::tell(const finding &which) {
    telling how;
    how.suppressed = known.match(which);
    ++(how.suppressed ? all.suppressed : all.of[which.is]);
    how.repeated = seen[site_of(which)]++;
    if (how.repeated >= asked.limit) {
        ++all.repeated;
        return;
    }
    if (!how.suppressed)
        put(STDERR_FILENO, as_text(which));
    write_log(as_json(which, how));
}

findings::findings(const settings &asked)
    : own_(std::make_unique<inside>(asked)) {
    if (!asked.suppressions.empty())
        own_->known = read_suppressions(asked.suppressions);
    for (const std::string &each : own_->known.problems)
        own_->note(each);
    own_->open_log();
}

findings::~findings() = default;

void findings::tell(const finding &which) {
    const std::lock_guard<std::mutex> held(own_->guard);
    own_->tell(which);
}

void findings::note(const std::string &text) {
    const std::lock_guard<std::mutex> held(own_->guard);
    own_->note(text);
}

std::size_t findings::finish() {
    const std::lock_guard<std::mutex> held(own_->guard);
    if (!own_->finished) {
        own_->finished = true;
        own_->write_log(as_json(own_->all));
        put(STDERR_FILENO, as_text(own_->all, own_->log_name));
    }
    return own_->all.all();
}

const char *name_of(kind which) noexcept {
    switch (which) {
    case kind::UNSYNCED_READ:
        return "unsynced-read";
    case kind::UNSYNCED_WRITE:
        return "unsynced-write";
    case kind::CONFLICT:
        return "conflict";
    case kind::STALE:
        return "stale";
    case kind::DISCARDED:
        return "discarded";
    case kind::BESIDE:
        return "beside";
    case kind::REDUNDANT:
        return "redundant";
    }
    return "?";
}

const char *missing_for(kind which) noexcept {
    switch (which) {
    case kind::UNSYNCED_READ:
        return "sync_rdma_read before the Read";
    case kind::UNSYNCED_WRITE:
        return "sync_rdma_write before the Write";
    case kind::CONFLICT:
        return "sync_rdma_write before or after the Write";
    case kind::STALE:
        return "sync_rdma_write after the Write";
    case kind::DISCARDED:
        return "sync_rdma_read before dereg_mr, or data that nobody needs";
    case kind::BESIDE:
        return "room: data in a line of its own";
    case kind::REDUNDANT:
        return "";
    }
    return "?";
}

} // namespace coherdma::emulation
