// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <csignal>
#include <initializer_list>
#include <pthread.h>

namespace coherdma::reports {

/// While it exists, this thread handles no signal; nor does one that it starts, ever.
class blocked_signals {
  public:
    blocked_signals() noexcept {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &old_mask_);
    }
    ~blocked_signals() { pthread_sigmask(SIG_SETMASK, &old_mask_, nullptr); }
    blocked_signals(const blocked_signals &) = delete;
    blocked_signals &operator=(const blocked_signals &) = delete;

  private:
    sigset_t old_mask_;
};

/// Blocks the signals that may come at any moment. Returns the former mask.
inline sigset_t block_asynchronous_signals() noexcept {
    sigset_t asynchronous, old_mask;
    sigfillset(&asynchronous);
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS})
        sigdelset(&asynchronous, signal);
    pthread_sigmask(SIG_BLOCK, &asynchronous, &old_mask);
    return old_mask;
}

} // namespace coherdma::reports
