// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <cstdint>
#include <pthread.h>

namespace coherdma::provider {

/// The queue pairs of a context, by their member next: for the rare cases in which one is looked
/// for by its number. One that was taken out is not found by anybody any more.
template <class pair>
class pairs {
  public:
    void init() noexcept { pthread_mutex_init(&mutex_, nullptr); }

    void add(pair &one) noexcept {
        const holding mine(mutex_);
        one.next = first_;
        first_ = &one;
    }
    void remove(const pair &one) noexcept {
        const holding mine(mutex_);
        pair **place = &first_;
        while (*place != &one)
            place = &(*place)->next;
        *place = one.next;
    }
    /// Meanwhile none is added or removed.
    template <class visitor>
    void each(const visitor &visit) noexcept {
        const holding mine(mutex_);
        for (pair *one = first_; one != nullptr; one = one->next)
            visit(*one);
    }

  private:
    class holding {
      public:
        explicit holding(pthread_mutex_t &mutex) noexcept
            : mutex_(mutex) {
            pthread_mutex_lock(&mutex_);
        }
        holding(const holding &) = delete;
        holding &operator=(const holding &) = delete;
        ~holding() { pthread_mutex_unlock(&mutex_); }

      private:
        pthread_mutex_t &mutex_;
    };

    pthread_mutex_t mutex_;
    pair *first_;
};

} // namespace coherdma::provider
