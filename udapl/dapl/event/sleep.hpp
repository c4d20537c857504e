// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The sleep of dat_evd_wait and dat_cno_wait, which signals and pthread_cancel end.
#pragma once

#include "dapl/core/deadline.hpp"
#include "dapl/core/lock.hpp"
#include "dapl/core/result.hpp"

#include <cerrno>
#include <poll.h>
#include <pthread.h>

namespace coherdma::dapl {

/// Calls the function at the end of the scope, also if pthread_cancel unwinds the stack.
template <class function>
struct on_exit {
    function run;
    ~on_exit() { run(); }
};
template <class function>
on_exit(function) -> on_exit<function>; // for clang 14

/// A call that sleeps at most until its deadline. pthread_cancel ends the thread only in sleep(),
/// since other cancellation points, such as read(), are in functions that are noexcept.
class sleeping_call {
  public:
    explicit sleeping_call(DAT_TIMEOUT timeout) noexcept
        : deadline(timeout) {
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    }
    ~sleeping_call() { pthread_setcancelstate(cancel_state, nullptr); }

    bool has_expired() const noexcept { return deadline.has_passed(); }

    /// Sleeps until a descriptor is readable or the deadline has passed. The caller holds the lock,
    /// which is released meanwhile. DAT_INTERRUPTED_CALL: a signal handler has run.
    DAT_RETURN sleep(mutex &lock, pollfd (&fds)[2]) {
        lock.unlock();
        const on_exit relock{[&lock] {
            lock.lock();
        }};
        pthread_setcancelstate(cancel_state, nullptr);
        const int error = ppoll(fds, 2, deadline.remaining(), nullptr) < 0 ? errno : 0;
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
        return error == 0 ? DAT_SUCCESS : from_errno(error, DAT_RESOURCE_TEVD);
    }

  private:
    dat_deadline deadline;
    int cancel_state = PTHREAD_CANCEL_ENABLE; ///< of the caller
};

} // namespace coherdma::dapl
