// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <mutex>

namespace coherdma::registry {

/// The lock of the registry, for std::lock_guard. It protects the registered providers and the open
/// and close of IAs; other calls take no lock. It is recursive because it is held while a library
/// is loaded, which may call the registry. fork() waits for it, so the child finds consistent data
/// and the lock free.
class recursive_lock {
  public:
    void lock() noexcept;
    void unlock() noexcept;
};
inline recursive_lock registry_lock;

/// Waits for forks that have begun, but not forever: the caller may be a fork handler. One that
/// began before a Provider was loaded does not call the Provider's handlers. Without the lock.
void wait_for_forks() noexcept;

} // namespace coherdma::registry
