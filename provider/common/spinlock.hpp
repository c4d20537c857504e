// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <atomic>
#include <cstdint>
#include <pthread.h>
#include <sched.h>

namespace coherdma::provider {

/// The lock of a ring: held while WQEs are written or CQEs are read, and while the kernel replaces
/// the ring. It is not held over a doorbell, except over siw's first.
class spinlock {
  public:
    void init(bool single_threaded) noexcept { single_threaded_ = single_threaded; }
    /// The consumer has promised to use the object from one thread at a time.
    bool is_single_threaded() const noexcept { return single_threaded_; }

    bool try_lock() noexcept { return single_threaded_ || acquire(); }
    void lock() noexcept {
        if (!try_lock())
            lock_contended();
    }
    // Ordering: release. acquire() changes the same word with acquire, so the next holder sees all
    // that this holder wrote.
    void unlock() noexcept { std::atomic_ref(locked_).store(0, std::memory_order_release); }

  private:
    bool acquire() noexcept {
        std::uint32_t unlocked = 0;
        return std::atomic_ref(locked_).compare_exchange_strong(
            unlocked, 1, std::memory_order_acquire, std::memory_order_relaxed);
    }
    // Yields the CPU after spin_limit attempts: the holder may be preempted on this CPU, or wait
    // for the kernel to replace the ring.
    [[gnu::noinline, gnu::cold]] void lock_contended() noexcept {
        constexpr unsigned spin_limit = 100;
        for (unsigned spins = 1;; ++spins) {
            if (std::atomic_ref(locked_).load(std::memory_order_relaxed) == 0 && acquire())
                return;
            if (spins >= spin_limit)
                sched_yield();
        }
    }

    std::uint32_t locked_;
    bool single_threaded_;
};

/// The lock of a CQ. A thread holds it from start_poll to end_poll, and may destroy or reset a QP
/// meanwhile, which takes the lock to discard CQEs.
class cq_spinlock : public spinlock {
  public:
    /// The thread that holds the lock keeps it until release_poll().
    void keep_for_poll() noexcept { polling_thread().store(pthread_self(), order); }
    void release_poll() noexcept {
        polling_thread().store(NO_THREAD, order);
        unlock();
    }

    /// Holds the lock, also if this thread keeps it for a poll. Without waits, holds_lock() may be
    /// false: another thread has the lock, or the CQ is for one thread, which may be another.
    class guard {
      public:
        explicit guard(cq_spinlock &lock, bool waits = true) noexcept
            : lock_(lock)
            , is_kept_(lock.polling_thread().load(order) == pthread_self())
            , is_taken_(!is_kept_ && !lock.is_single_threaded() && lock.try_lock()) {
            if (!is_kept_ && !is_taken_ && waits) {
                lock_.lock();
                is_taken_ = true;
            }
        }
        ~guard() {
            if (is_taken_)
                lock_.unlock();
        }
        guard(const guard &) = delete;
        guard &operator=(const guard &) = delete;
        bool holds_lock() const noexcept { return is_kept_ || is_taken_; }

      private:
        cq_spinlock &lock_;
        bool is_kept_, is_taken_;
    };

  private:
    // No thread has this ID: pthread_self() is the address of its descriptor.
    static constexpr pthread_t NO_THREAD = 0;
    // Ordering: none. A thread only asks whether the last store was its own.
    static constexpr std::memory_order order = std::memory_order_relaxed;
    std::atomic_ref<pthread_t> polling_thread() noexcept {
        return std::atomic_ref(polling_thread_);
    }

    pthread_t polling_thread_;
};

} // namespace coherdma::provider
