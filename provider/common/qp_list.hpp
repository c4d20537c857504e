// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <mutex>
#include <pthread.h>

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

/// The QPs of a context, linked by their member next. Neither a post nor a poll uses the list,
/// except after an error and to check QPs for an error.
template <class qp_type>
class qp_list {
  public:
    void init() noexcept { mutex_.init(); }

    void add(qp_type &qp) noexcept {
        const std::lock_guard guard(mutex_);
        qp.next = head_;
        head_ = &qp;
    }
    void remove(const qp_type &qp) noexcept {
        const std::lock_guard guard(mutex_);
        qp_type **link = &head_;
        while (*link != &qp)
            link = &(*link)->next;
        *link = qp.next;
    }
    /// Calls visit(qp) for each QP, with the list locked.
    template <class function>
    void for_each(const function &visit) noexcept {
        const std::lock_guard guard(mutex_);
        for (qp_type *qp = head_; qp != nullptr; qp = qp->next)
            visit(*qp);
    }

  private:
    mutex mutex_;
    qp_type *head_;
};

} // namespace coherdma::provider
