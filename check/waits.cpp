// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "waits.hpp"

#include <system_error>
#include <thread>

namespace coherdma::check {
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

constexpr clock::duration INTERVAL = 250ms, PATIENCE = 1s;

/// Whether the thread waits as it did when it began.
bool is_endless(process_books &books, const endless_wait &wait) {
    if (!wait.destroyed)
        return is_endless(books, *wait.channel);
    const known_object *const object = books.find(*wait.destroyed);
    return object != nullptr && object->num_unacknowledged != 0;
}

void report(process_books &books, const endless_wait &wait, findings &results) {
    if (!wait.destroyed)
        check_endless(books, *wait.channel, wait.stack, results);
    else if (const known_object *const object = books.find(*wait.destroyed))
        check_unacknowledged(*object, wait.stack, results);
}

/// Reports the waits that have taken too long. Returns whether there are others.
bool look_at_waits(process_check &process) {
    bool has_more = false;
    locked_books locked(process);
    for (auto &[thread, wait] : locked.books.waits) {
        if (wait.is_reported || !is_endless(locked.books, wait))
            continue;
        has_more = true;
        if (clock::now() - wait.start < PATIENCE)
            continue;
        wait.is_reported = true;
        report(locked.books, wait, locked.results);
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

void add(locked_books &locked, endless_wait wait) {
    wait.start = clock::now();
    wait.stack = stack_trace::capture_all();
    locked.books.waits.insert_or_assign(std::this_thread::get_id(), wait);
    if (!locked.books.are_waits_watched)
        start_watch(locked.process());
}

} // namespace

void begin_wait(locked_books &locked, const ibv_comp_channel &channel) {
    if (is_endless(locked.books, channel))
        add(locked, {.channel = &channel});
}

void begin_destruction(locked_books &locked, const interposer::object &object) {
    const known_object *const known = locked.books.find(object);
    if (known != nullptr && known->num_unacknowledged != 0)
        add(locked, {.destroyed = object});
}

void end_wait(locked_books &locked) {
    locked.books.waits.erase(std::this_thread::get_id());
}

} // namespace coherdma::check
