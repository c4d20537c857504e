// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "end_signals.hpp"

#include "blocked_signals.hpp"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <pthread.h>
#include <semaphore.h>
#include <thread>
#include <unistd.h>

namespace coherdma::emulation {
namespace {

/// Of one process; a child of fork() makes another.
struct reporter {
    const pid_t pid = getpid();
    sem_t requested;
    std::atomic<bool> is_done = false;
    void (*report)() noexcept;
};
std::atomic<reporter *> current_reporter = nullptr; // never destroyed: a handler may use it
static_assert(std::atomic<reporter *>::is_always_lock_free); // for the handler

/// Waits until the thread has reported, for at most 3 s. For a signal handler.
void wait_for_report(const reporter &reporter) noexcept {
    constexpr timespec STEP = {.tv_sec = 0, .tv_nsec = 1000000};
    constexpr int MAX_STEPS = 3000;
    for (int i = 0; i < MAX_STEPS && !reporter.is_done.load(std::memory_order_acquire); ++i)
        nanosleep(&STEP, nullptr);
}

/// The handler: after its end, the signal has the default action.
void report_and_end(int signal) noexcept {
    const int saved_errno = errno;
    reporter *const reporter = current_reporter.load();
    if (reporter != nullptr && reporter->pid == getpid()) {
        sem_post(&reporter->requested);
        wait_for_report(*reporter);
    }
    struct sigaction by_default = {};
    by_default.sa_handler = SIG_DFL;
    sigaction(signal, &by_default, nullptr);
    raise(signal); // it is blocked until the handler returns
    errno = saved_errno;
}

void run_reporter(reporter &reporter) noexcept {
    pthread_setname_np(pthread_self(), "coherdma-end");
    while (sem_wait(&reporter.requested) != 0) {
    }
    reporter.report();
    reporter.is_done.store(true, std::memory_order_release);
}

} // namespace

void report_before_end_by_signal(void (*report)() noexcept) {
    auto *const created = new reporter;
    created->report = report;
    sem_init(&created->requested, 0, 0);
    {
        const blocked_signals scope;
        std::thread([created] { run_reporter(*created); }).detach();
    }
    current_reporter.store(created);
    for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
        struct sigaction action = {};
        if (sigaction(signal, nullptr, &action) != 0 || action.sa_handler != SIG_DFL)
            continue;
        action.sa_handler = report_and_end;
        sigaction(signal, &action, nullptr);
    }
}

} // namespace coherdma::emulation
