// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "waits.hpp"

#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>

namespace coherdma::check {
namespace {

using namespace std::chrono_literals;

/// Looks, not time: the process may be stopped in between, as by a debugger.
constexpr auto INTERVAL = 250ms;
constexpr unsigned PATIENCE = 5; ///< looks: more than a second

/// Whether nothing ends the wait, unless the program's other threads do something.
bool is_endless(process_books &books, endless_wait &wait) {
    if (wait.channel != nullptr) {
        // A thread that polls all the time may arm the CQ when there is nothing to poll any more.
        const std::size_t num_polls = count_polls(books, *wait.channel);
        return std::exchange(wait.num_polls, num_polls) == num_polls &&
               is_endless(books, *wait.channel);
    }
    const known_object *const ended = books.find(wait.ended);
    return ended != nullptr && ended->num_unacknowledged != 0;
}

void report(process_books &books, const endless_wait &wait, findings &result) {
    if (wait.channel != nullptr)
        return check_endless(books, *wait.channel, wait.stack, result);
    check_events(*books.find(wait.ended), result);
    result.back().events.back().stack = wait.stack;
}

/// Reports the waits that have taken too long. Returns whether there are others.
bool look_at_waits(process_check &process) {
    bool has_more = false;
    locked_books locked(process);
    for (auto &[thread, wait] : locked.books.waits) {
        if (wait.is_reported)
            continue;
        has_more = true;
        wait.num_looks = is_endless(locked.books, wait) ? wait.num_looks + 1 : 0;
        if (wait.num_looks < PATIENCE)
            continue;
        wait.is_reported = true;
        const std::size_t num_results = locked.results.size();
        report(locked.books, wait, locked.results);
        if (locked.results.size() > num_results)
            locked.results.back().thread = wait.thread;
    }
    locked.books.are_waits_watched = has_more;
    return has_more;
}

void watch(process_check *process) noexcept {
    try {
        do
            std::this_thread::sleep_for(INTERVAL);
        while (look_at_waits(*process));
    } catch (const std::bad_alloc &) { // they are not watched any more
    }
}

void start_watch(process_check &process) {
    try {
        start_thread([&process] { watch(&process); }).detach();
        process.books.are_waits_watched = true;
    } catch (const std::system_error &) { // no more threads: they are not watched
    }
}

void add(locked_books &locked, const endless_wait &wait) {
    locked.books.waits[std::this_thread::get_id()] = wait;
    if (!locked.books.are_waits_watched)
        start_watch(locked.process());
}

} // namespace

void begin_wait(locked_books &locked, const ibv_comp_channel &channel) {
    if (is_unarmed(locked.books, channel))
        add(locked, {.channel = &channel,
                     .ended = {},
                     .stack = stack_trace::capture_all(),
                     .thread = gettid(),
                     .num_polls = count_polls(locked.books, channel)});
}

void begin_destroy(locked_books &locked, const interposer::object &ended) {
    const known_object *const object = locked.books.find(ended);
    if (object != nullptr && object->num_unacknowledged != 0 &&
        object->event_thread != std::this_thread::get_id())
        add(locked, {.channel = nullptr,
                     .ended = ended,
                     .stack = stack_trace::capture_all(),
                     .thread = gettid()});
}

void end_wait(locked_books &locked) {
    locked.books.waits.erase(std::this_thread::get_id());
}

} // namespace coherdma::check
