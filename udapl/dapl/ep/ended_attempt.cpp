// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "ended_attempt.hpp"

#include "dapl/event/evd.hpp"
#include "dapl/event/event_thread.hpp"

#include <new>
#include <pthread.h>
#include <utility>

namespace coherdma::dapl {

namespace {

/// Drops the completions of a destroyed QP, which not every verbs provider does: their cookies,
/// which are freed next, make no events.
void drain(DAT_EVD_HANDLE evd_handle) noexcept {
    const auto evd = lookup<dapl_evd>(evd_handle);
    if (!evd) // Freed: no thread polls its CQ any more.
        return;
    const std::lock_guard guard(evd->lock);
    evd->drain_cq();
}

} // namespace

void retired_qp::destroy() noexcept {
    if (!qp)
        return;
    qp.reset();
    drain(request_evd);
    drain(recv_evd);
}

ended_attempt::ended_attempt(cm::connection *attempted_conn) noexcept
    : conn(attempted_conn)
    , channel(event_thread::share_channel()) {}

std::shared_ptr<ended_attempt> ended_attempt::create(cm::connection *conn) noexcept {
    try {
        return std::make_shared<ended_attempt>(conn);
    } catch (const std::bad_alloc &) {
        return nullptr;
    }
}

/// Starts a thread that destroys the attempt, which blocks on iWARP; if that fails, this call does.
void ended_attempt::start(const std::shared_ptr<ended_attempt> &attempt) noexcept {
    attempt->self = attempt; // keeps it until the thread ends
    pthread_t thread;
    if (event_thread::create_thread(thread_main, attempt.get(), thread) == 0) {
        pthread_detach(thread);
        return;
    }
    attempt->self.reset();
    attempt->destroy();
}

void *ended_attempt::thread_main(void *arg) noexcept {
    const std::shared_ptr<ended_attempt> attempt =
        std::move(static_cast<ended_attempt *>(arg)->self);
    pthread_setname_np(pthread_self(), "coherdma-ended");
    attempt->destroy();
    return nullptr;
}

/// In the thread: blocks until the kernel gives up the attempt, then destroys the QP.
void ended_attempt::destroy() noexcept {
    cm::destroy_conn(conn);
    retired_qp retired;
    {
        const std::lock_guard guard(lock);
        destroyed = true;
        retired = std::move(adopted);
    }
}

/// Leaves a QP to the thread; if the thread has ended, the destructor of `retired` destroys it.
void ended_attempt::adopt(retired_qp &&retired) noexcept {
    const std::lock_guard guard(lock);
    if (!destroyed)
        adopted = std::move(retired);
}

} // namespace coherdma::dapl
