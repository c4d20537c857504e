// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A shared mutex in which a waiting writer goes first (SharedLockable). std::shared_mutex lets
// readers pass it: threads that sync in a loop keep another from creating an LMR as long as their
// reads overlap. Readers may wait as long as writers follow each other without a pause: LMRs and
// RMRs change less often than they are looked up.
#pragma once

#include <cstdlib>
#include <pthread.h>

namespace coherdma::dapl {

/// A thread that has it shared must not lock it again: a writer between the two would wait for the
/// thread, and the thread for the writer.
class shared_mutex {
  public:
    shared_mutex() noexcept = default;
    ~shared_mutex() { pthread_rwlock_destroy(&rwlock); }
    shared_mutex(const shared_mutex &) = delete;
    shared_mutex &operator=(const shared_mutex &) = delete;

    void lock() noexcept { abort_if(pthread_rwlock_wrlock(&rwlock)); }
    void unlock() noexcept { pthread_rwlock_unlock(&rwlock); }
    void lock_shared() noexcept { abort_if(pthread_rwlock_rdlock(&rwlock)); }
    bool try_lock_shared() noexcept { return pthread_rwlock_tryrdlock(&rwlock) == 0; }
    void unlock_shared() noexcept { pthread_rwlock_unlock(&rwlock); }

  private:
    /// EDEADLK: the thread itself writes, and a function that it called has come here again.
    static void abort_if(int error) noexcept {
        if (error != 0)
            std::abort();
    }

    pthread_rwlock_t rwlock = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
};

} // namespace coherdma::dapl
