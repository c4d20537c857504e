// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A lock of one word for what is held for some instructions, or over a doorbell: who finds it taken
// sleeps, since the holder may be in a system call. Taking it and giving it back costs an atomic
// instruction and a jump each, and posting takes one per request.
//
// One bit says that it is taken, another that somebody sleeps, or is about to. Who gives it back
// takes away the first bit; if then the other is left, he has more to do.
#pragma once

#include <atomic>
#include <cstdint>

namespace coherdma::dapl {

class lock {
  public:
    // acquire: what the last holder wrote is seen.
    bool try_it() noexcept {
        return (state.fetch_or(taken, std::memory_order_acquire) & taken) == 0;
    }
    void lock_it() noexcept {
        if (!try_it()) [[unlikely]]
            lock_slow();
    }
    // release: the next holder sees what this one wrote, through any bits that others set between.
    /// True: now somebody is to be woken.
    bool give_back() noexcept { return state.fetch_sub(taken, std::memory_order_release) != taken; }
    void unlock() noexcept {
        if (give_back()) [[unlikely]]
            wake();
    }
    [[gnu::cold]] void wake() noexcept;

  private:
    [[gnu::cold]] void lock_slow() noexcept;

    enum : std::uint32_t { taken = 1, awaited = 2 };
    std::atomic<std::uint32_t> state = 0;
};

class [[nodiscard]] holding {
  public:
    explicit holding(lock &wanted) noexcept
        : held(wanted) {
        held.lock_it();
    }
    ~holding() { held.unlock(); }
    holding(const holding &) = delete;
    holding &operator=(const holding &) = delete;

  private:
    lock &held;
};

} // namespace coherdma::dapl
