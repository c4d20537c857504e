// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <pthread.h>
#include <sched.h>

namespace coherdma::provider {

/// One thread at a time at a ring. Held for no longer than it takes to fill slots or to empty them:
/// never over a system call. Who has to keep the others away for longer, because the kernel
/// exchanges the ring, closes it; then they sleep in between.
struct turn {
    pthread_spinlock_t spin;
    bool closed;
    bool alone; ///< the program has promised to use it by one thread at a time

    void init(bool by_one_thread) noexcept {
        pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE);
        alone = by_one_thread;
    }

    void enter() noexcept {
        if (alone)
            return;
        pthread_spin_lock(&spin);
        while (closed) {
            pthread_spin_unlock(&spin);
            sched_yield();
            pthread_spin_lock(&spin);
        }
    }
    void leave() noexcept {
        if (!alone)
            pthread_spin_unlock(&spin);
    }

    void close() noexcept {
        enter();
        closed = true;
        leave();
    }
    void reopen() noexcept {
        if (!alone)
            pthread_spin_lock(&spin);
        closed = false;
        leave();
    }
};

/// A turn as long as its holder lives.
class taking_turn {
  public:
    explicit taking_turn(turn &at) noexcept
        : at_(at) {
        at_.enter();
    }
    taking_turn(const taking_turn &) = delete;
    taking_turn &operator=(const taking_turn &) = delete;
    ~taking_turn() { at_.leave(); }

  private:
    turn &at_;
};

/// A ring that is closed as long as its holder lives.
class keeping_closed {
  public:
    explicit keeping_closed(turn &at) noexcept
        : at_(at) {
        at_.close();
    }
    keeping_closed(const keeping_closed &) = delete;
    keeping_closed &operator=(const keeping_closed &) = delete;
    ~keeping_closed() { at_.reopen(); }

  private:
    turn &at_;
};

} // namespace coherdma::provider
