// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <atomic>
#include <cstdint>
#include <sched.h>

namespace coherdma::provider {

/// One thread at a time at a ring. Held for no longer than it takes to fill slots or to empty them:
/// never over a system call. Who has to keep the others away for longer, because the kernel
/// exchanges the ring, closes it; then they sleep in between.
///
/// Ordering. Who leaves stores with release, who enters changes the same word with acquire: so
/// whatever the one wrote, the next sees.
class turn {
  public:
    void init(bool by_one_thread) noexcept { alone_ = by_one_thread; }
    /// The program has promised to use it by one thread at a time.
    bool alone() const noexcept { return alone_; }

    bool try_to_enter() noexcept { return alone_ || taken(entered); }
    void enter() noexcept {
        if (!try_to_enter())
            wait(entered);
    }
    void leave() noexcept { std::atomic_ref(state_).store(free, std::memory_order_release); }
    /// Also where one thread alone uses it: it does not while it closes it.
    void close() noexcept {
        if (!taken(closed))
            wait(closed);
    }
    void reopen() noexcept { std::atomic_ref(state_).store(free, std::memory_order_release); }

  private:
    enum : std::uint32_t { free, entered, closed };

    bool taken(std::uint32_t how) noexcept {
        std::uint32_t seen = free;
        return std::atomic_ref(state_).compare_exchange_strong(seen, how, std::memory_order_acquire,
                                                               std::memory_order_relaxed);
    }
    // Whoever has it is soon done, but may wait for a processor, perhaps for this one.
    [[gnu::noinline, gnu::cold]] void wait(std::uint32_t how) noexcept {
        constexpr unsigned patience = 100;
        for (unsigned times = 1;; ++times) {
            const std::uint32_t seen = std::atomic_ref(state_).load(std::memory_order_relaxed);
            if (seen == free && taken(how))
                return;
            if (seen == closed || times % patience == 0)
                sched_yield();
        }
    }

    std::uint32_t state_;
    bool alone_;
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
