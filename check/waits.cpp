// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "waits.hpp"

#include <csignal>
#include <system_error>
#include <thread>

namespace coherdma::check {
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

constexpr clock::duration INTERVAL = 250ms, PATIENCE = 1s;

/// Reports the waits that have taken too long. Returns whether there are others.
bool look_at_waits(process_check &process) {
    bool has_more = false;
    locked_books locked(process);
    for (auto &[thread, wait] : locked.books.waits) {
        if (wait.is_reported || !is_endless(locked.books, *wait.channel))
            continue;
        has_more = true;
        if (clock::now() - wait.start < PATIENCE)
            continue;
        wait.is_reported = true;
        check_endless(locked.books, *wait.channel, wait.stack, locked.results);
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

/// The thread handles no signals of the program.
void start_watch(process_check &process) {
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    try {
        std::thread(watch, &process).detach();
        process.books.are_waits_watched = true;
    } catch (const std::system_error &) { // no more threads: they are not watched
    }
    pthread_sigmask(SIG_SETMASK, &old, nullptr);
}

} // namespace

void begin_wait(locked_books &locked, const ibv_comp_channel &channel) {
    if (!is_endless(locked.books, channel))
        return;
    locked.books.waits[std::this_thread::get_id()] = {
        .channel = &channel, .start = clock::now(), .stack = stack_trace::capture_all()};
    if (!locked.books.are_waits_watched)
        start_watch(locked.process());
}

void end_wait(locked_books &locked) {
    locked.books.waits.erase(std::this_thread::get_id());
}

} // namespace coherdma::check
