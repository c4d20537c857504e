// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What the checker adds to a report of the address sanitizer, which ends the process.

#include "process.hpp"
#include "sanitizer_runtimes.hpp"
#include "sanitizers.hpp"

#include <algorithm>
#include <chrono>
#include <string>

namespace coherdma::check {
namespace {

struct report_functions {
    void (*set_report_callback)(void (*)(const char *text));
    void (*set_death_callback)(void (*)());
    void *(*report_address)();
    std::size_t (*report_size)();
};
report_functions functions;

std::string describe_use(const known_object &queue, const posted_request &request) {
    std::string text = "this memory is of " + describe_request(request) + ", which was posted to " +
                       queue.name + " and is not complete";
    const std::vector<std::string> frames = reports::to_strings(request.stack);
    for (std::size_t i = 0; i < frames.size(); ++i)
        text += (i == 0 ? ": posted by " : ", called by ") + frames[i];
    return text;
}

finding describe_access(const known_object &queue, const posted_request &request) {
    finding added = make_finding(finding_kind::EARLY_ACCESS, queue,
                                 "the program uses memory of " + describe_request(request) +
                                     ", before its completion was polled",
                                 "the address sanitizer reports the access");
    added.events.insert(added.events.end() - 1,
                        post_event(request, ", was posted to " + queue.name));
    return added;
}

struct described_uses {
    std::vector<std::string> notes;
    findings accesses;
};

/// Of the memory that the sanitizer reports.
described_uses describe_uses(const process_check &process) {
    const auto begin = reinterpret_cast<std::uintptr_t>(functions.report_address());
    const std::size_t size = std::max<std::size_t>(functions.report_size(), 1);
    described_uses uses;
    if (process.watcher->find_requests(begin, begin + size).empty())
        return uses;
    process.books.for_each_request([&](const known_object &queue, const posted_request &request) {
        const bool names_it = std::any_of(
            request.memory.begin(), request.memory.end(), [&](const named_memory &named) {
                return named.begin < begin + size && begin < named.end;
            });
        if (names_it && is_written(request)) {
            uses.notes.push_back(describe_use(queue, request));
            uses.accesses.push_back(describe_access(queue, request));
        }
        return false;
    });
    return uses;
}

/// The thread that makes the report may be in the checker, or another one that waits for this one.
std::unique_lock<std::mutex> lock_patiently(std::mutex &mutex) {
    constexpr int MAX_ATTEMPTS = 100;
    constexpr std::chrono::milliseconds PAUSE(10);
    std::unique_lock lock(mutex, std::try_to_lock);
    for (int i = 0; i < MAX_ATTEMPTS && !lock.owns_lock(); ++i) {
        std::this_thread::sleep_for(PAUSE);
        static_cast<void>(lock.try_lock());
    }
    return lock;
}

void explain_report(const char *) {
    process_check *const process = current_check.load(std::memory_order_acquire);
    if (process == nullptr || process->watcher == nullptr || checking_scope::is_active())
        return;
    const checking_scope scope;
    try {
        described_uses uses;
        if (const auto lock = lock_patiently(process->mutex))
            uses = describe_uses(*process);
        for (const std::string &note : uses.notes)
            process->log.note(note);
        for (const finding &access : uses.accesses)
            process->log.report(access);
    } catch (const std::bad_alloc &) { // then it is not explained
    }
}

void end_report() {
    end_check();
}

} // namespace

void explain_sanitizer_reports() noexcept {
    if (find_function(functions.report_address, "__asan_get_report_address") &&
        find_function(functions.report_size, "__asan_get_report_access_size") &&
        find_function(functions.set_report_callback, "__asan_set_error_report_callback"))
        functions.set_report_callback(explain_report);
    if (find_function(functions.set_death_callback, "__sanitizer_set_death_callback"))
        functions.set_death_callback(end_report);
}

} // namespace coherdma::check
