// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

namespace coherdma::emulation {

/// While it exists, this thread is in a call of the emulation and may have its mutexes.
class call_scope {
  public:
    call_scope() noexcept { depth = depth + 1; }
    ~call_scope() { depth = depth - 1; }
    call_scope(const call_scope &) = delete;
    call_scope &operator=(const call_scope &) = delete;

    /// For a signal handler: whether it has interrupted such a call of this thread.
    [[nodiscard]] static bool exists() noexcept { return depth != 0; }

  private:
    // initial-exec: a handler must not allocate it. volatile: a handler reads it in between.
    [[gnu::tls_model("initial-exec")]] static inline thread_local volatile int depth = 0;
};

} // namespace coherdma::emulation
