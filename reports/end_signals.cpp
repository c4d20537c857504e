// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "end_signals.hpp"

#include "blocked_signals.hpp"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

namespace coherdma::reports {
namespace {

/// Of one process; a child of fork() makes another.
struct reporter {
    const pid_t pid = getpid();
    sem_t requested;
    std::atomic<int> signal = 0; ///< that ends the process
    std::atomic<bool> is_done = false;
    void (*report)() noexcept;
    bool (*is_busy)() noexcept;
};
std::atomic<reporter *> current_reporter = nullptr; // never destroyed: a handler may use it
static_assert(std::atomic<reporter *>::is_always_lock_free); // for the handler

/// Waits until the thread has reported, for at most 3 s. nanosleep() of libc would be a
/// cancellation point.
void wait_for_report(const reporter &reporter) noexcept {
    constexpr timespec STEP = {.tv_sec = 0, .tv_nsec = 1000000};
    constexpr int MAX_STEPS = 3000;
    for (int i = 0; i < MAX_STEPS && !reporter.is_done.load(); ++i)
        syscall(SYS_nanosleep, &STEP, nullptr);
}

/// The handler. From now on the signal has its default action (SA_RESETHAND).
void report_and_end(int signal) noexcept {
    const int saved_errno = errno;
    reporter *const reporter = current_reporter.load();
    if (reporter != nullptr && reporter->pid == getpid()) {
        reporter->signal.store(signal);
        sem_post(&reporter->requested);
        // The report needs the mutexes that this thread may have: then it goes on. Else it waits:
        // the program does not see that the signal has interrupted a system call.
        if (reporter->is_busy()) {
            errno = saved_errno;
            return;
        }
        wait_for_report(*reporter);
    }
    raise(signal); // it is blocked until the handler returns
    errno = saved_errno;
}

void run_reporter(reporter &reporter) noexcept {
    pthread_setname_np(pthread_self(), "coherdma-end");
    while (sem_wait(&reporter.requested) != 0) {
    }
    reporter.report();
    reporter.is_done.store(true);
    kill(reporter.pid, reporter.signal.load());
}

} // namespace

void report_before_end_by_signal(void (*report)() noexcept, bool (*is_busy)() noexcept) {
    constexpr pid_t FIRST_OF_NAMESPACE = 1;
    const bool has_thread_sanitizer = dlsym(RTLD_DEFAULT, "__tsan_init") != nullptr;
    if (getpid() == FIRST_OF_NAMESPACE || has_thread_sanitizer)
        return;
    auto *const created = new reporter;
    created->report = report;
    created->is_busy = is_busy;
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
        action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART | SA_ONSTACK;
        sigaction(signal, &action, nullptr);
    }
}

} // namespace coherdma::reports
