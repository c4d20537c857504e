// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The QPs of a context, by number. Neither a post nor a poll uses the table, except after an error
// and to check QPs for an error.
//
// The kernel may give the number of a QP to a new one as soon as it has destroyed the first, whose
// CQEs are still in the ring. So a QP is retired before the kernel destroys it, until its CQEs are
// discarded; and a thread that adds a QP with that number discards them first, while the ring has
// no CQE of the new one. A poll handles a CQE with the CQ's lock held, as discarding does; so until
// then a poll finds no QP of that number, and afterwards no CQE of the old one.
//
// A CQ's lock may be held from ibv_start_poll() to ibv_end_poll(), by a thread that destroys and
// creates QPs meanwhile. So a thread that adds a QP waits for no lock of a CQ while the thread that
// destroys the retired QP waits for it.
#pragma once

#include "calloc_ptr.hpp"
#include "objects.hpp"
#include "spinlock.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <pthread.h>
#include <sched.h>

namespace coherdma::provider {

/// A mutex that does not need the C++ library.
class mutex {
  public:
    void init() noexcept { pthread_mutex_init(&mutex_, nullptr); }
    void lock() noexcept { pthread_mutex_lock(&mutex_); }
    void unlock() noexcept { pthread_mutex_unlock(&mutex_); }

  private:
    pthread_mutex_t mutex_;
};

/// What the table has in each QP, as its member `entry`.
template <class qp_type>
struct qp_table_entry {
    qp_type *next;
    unsigned num_helpers; ///< threads that discard the CQEs of this retired QP to use its number
    /// Whether the CQEs of this retired QP were discarded. Changed with the CQ's lock held.
    bool is_send_cq_clean, is_recv_cq_clean;
};

/// Discards the CQEs of a retired QP in one of its CQs, once. False: it would have to wait for the
/// CQ's lock.
template <class cq_type, class qp_type>
[[gnu::cold]] bool discard_once(cq_type &cq, const qp_type &qp, bool &is_clean,
                                bool waits) noexcept {
    const cq_spinlock::guard guard(cq.lock, waits);
    if (!guard.holds_lock())
        return false;
    const std::atomic_ref shared_is_clean(is_clean);
    if (!shared_is_clean.load())
        discard_cqes(cq, qp);
    shared_is_clean.store(true);
    return true;
}

/// The same in both of its CQs.
template <class cq_type, class qp_type>
[[gnu::cold]] bool discard_retired_cqes(qp_type &qp, bool waits) noexcept {
    const ibv_qp &ibqp = qp.verbs.qp;
    auto &entry = qp.entry;
    bool is_done =
        discard_once(container_of<cq_type>(ibqp.send_cq), qp, entry.is_send_cq_clean, waits);
    if (ibqp.recv_cq == nullptr || ibqp.recv_cq == ibqp.send_cq)
        std::atomic_ref(entry.is_recv_cq_clean).store(true);
    else
        is_done =
            discard_once(container_of<cq_type>(ibqp.recv_cq), qp, entry.is_recv_cq_clean, waits) &&
            is_done;
    return is_done;
}

template <class qp_type, class cq_type>
class qp_table {
  public:
    void init() noexcept { mutex_.init(); }
    void destroy() noexcept { std::free(buckets_); }

    /// Adds a QP that the kernel has created, after it has discarded the CQEs of a retired one with
    /// its number.
    [[gnu::cold]] void add(qp_type &qp) noexcept {
        while (qp_type *const retired = start_helping(qp.verbs.qp.qp_num)) {
            const bool is_done = discard_retired_cqes<cq_type>(*retired, false);
            end_helping(*retired);
            if (!is_done)
                sched_yield(); // the thread that has a CQ's lock, or destroys that QP, goes on
        }
        const std::lock_guard guard(mutex_);
        grow_if_full();
        push(bucket(qp.verbs.qp.qp_num), qp);
        ++num_qps_;
    }

    /// Before the kernel destroys the QP.
    [[gnu::cold]] void retire(qp_type &qp) noexcept {
        const std::lock_guard guard(mutex_);
        remove(bucket(qp.verbs.qp.qp_num), qp);
        push(retired_, qp);
    }
    /// The kernel could not destroy the QP, whose number has remained in use.
    [[gnu::cold]] void restore(qp_type &qp) noexcept {
        const std::lock_guard guard(mutex_);
        remove(retired_, qp);
        push(bucket(qp.verbs.qp.qp_num), qp);
    }
    /// The kernel has destroyed the QP: discards its CQEs. Then no thread uses it any more.
    [[gnu::cold]] void forget(qp_type &qp) noexcept {
        discard_retired_cqes<cq_type>(qp, true);
        while (!try_forget(qp))
            sched_yield(); // the thread that helps waits for nothing
    }

    /// Calls visit(qp) for the QP with this number, if there is one, with the table locked.
    template <class function>
    void visit(std::uint32_t qp_num, const function &visit) noexcept {
        const std::lock_guard guard(mutex_);
        for (qp_type *qp = bucket(qp_num); qp != nullptr; qp = qp->entry.next)
            if (qp->verbs.qp.qp_num == qp_num)
                visit(*qp);
    }
    /// Returns when the visits that have begun have ended.
    [[gnu::cold]] void wait_for_visits() noexcept { const std::lock_guard guard(mutex_); }
    /// Calls visit(qp) for each QP, with the table locked.
    template <class function>
    void visit_all(const function &visit) noexcept {
        const std::lock_guard guard(mutex_);
        for (std::size_t i = 0; i < num_buckets(); ++i)
            for (qp_type *qp = buckets()[i]; qp != nullptr; qp = qp->entry.next)
                visit(*qp);
    }

  private:
    static constexpr std::size_t MIN_BUCKETS = 16, GROWTH = 4; // powers of two

    static void push(qp_type *&head, qp_type &qp) noexcept {
        qp.entry.next = head;
        head = &qp;
    }
    static void remove(qp_type *&head, const qp_type &qp) noexcept {
        qp_type **link = &head;
        while (*link != &qp)
            link = &(*link)->entry.next;
        *link = qp.entry.next;
    }
    qp_type **buckets() noexcept { return buckets_ != nullptr ? buckets_ : first_buckets_; }
    std::size_t num_buckets() const noexcept { return MIN_BUCKETS << growth_shift_; }
    qp_type *&bucket(std::uint32_t qp_num) noexcept {
        return buckets()[qp_num & (num_buckets() - 1)];
    }
    /// Without memory the lists become longer.
    [[gnu::cold]] void grow_if_full() noexcept {
        if (num_qps_ < num_buckets())
            return;
        const std::size_t new_size = num_buckets() * GROWTH;
        auto **const new_buckets =
            static_cast<qp_type **>(std::calloc(new_size, sizeof(qp_type *)));
        if (new_buckets == nullptr)
            return;
        for (std::size_t i = 0; i < num_buckets(); ++i) {
            while (qp_type *const qp = buckets()[i]) {
                buckets()[i] = qp->entry.next;
                push(new_buckets[qp->verbs.qp.qp_num & (new_size - 1)], *qp);
            }
        }
        std::free(buckets_);
        buckets_ = new_buckets;
        growth_shift_ += 2;
        static_assert(GROWTH == 1U << 2U);
    }

    /// A retired QP with this number whose CQEs have not been discarded, or nullptr.
    [[gnu::cold]] qp_type *start_helping(std::uint32_t qp_num) noexcept {
        const std::lock_guard guard(mutex_);
        for (qp_type *qp = retired_; qp != nullptr; qp = qp->entry.next) {
            auto &entry = qp->entry;
            if (qp->verbs.qp.qp_num == qp_num &&
                !(std::atomic_ref(entry.is_send_cq_clean).load() &&
                  std::atomic_ref(entry.is_recv_cq_clean).load())) {
                ++entry.num_helpers;
                return qp;
            }
        }
        return nullptr;
    }
    [[gnu::cold]] void end_helping(qp_type &qp) noexcept {
        const std::lock_guard guard(mutex_);
        --qp.entry.num_helpers;
    }
    [[gnu::cold]] bool try_forget(qp_type &qp) noexcept {
        const std::lock_guard guard(mutex_);
        if (qp.entry.num_helpers != 0)
            return false;
        remove(retired_, qp);
        --num_qps_;
        return true;
    }

    mutex mutex_;
    qp_type **buckets_; ///< nullptr: first_buckets_
    qp_type *first_buckets_[MIN_BUCKETS];
    qp_type *retired_;
    std::size_t num_qps_;
    unsigned growth_shift_;
};

} // namespace coherdma::provider
