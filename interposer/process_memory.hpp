// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The process's memory, for observers that want to know when it is freed: calls of free(),
// realloc(), munmap(), mremap() and mmap() come here. The memory of verbs objects that were
// destroyed is kept for a while then, so that a call with one of them can be told from a valid one.
#pragma once

#include <array>

namespace coherdma::interposer {

/// A function of the C library, or of an allocator in its place, and the one that is called
/// instead.
struct memory_function {
    void *original = nullptr;
    void *replacement = nullptr;
};
/// Finds the originals; nothing is replaced yet.
std::array<memory_function, 5> find_memory_functions() noexcept;

/// While it exists, this thread destroys the object: what is freed with it is kept.
class destruction_scope {
  public:
    explicit destruction_scope(const void *handle) noexcept
        : outer_(current_) {
        current_ = handle;
    }
    ~destruction_scope() { current_ = outer_; }
    destruction_scope(const destruction_scope &) = delete;
    destruction_scope &operator=(const destruction_scope &) = delete;

    /// nullptr: none exists.
    static const void *current() noexcept { return current_; }

  private:
    // initial-exec: free() must not allocate it.
    [[gnu::tls_model("initial-exec")]] static inline thread_local const void *current_ = nullptr;
    const void *const outer_;
};

} // namespace coherdma::interposer
