// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The program's memory that outstanding requests name: until the program has polled a completion,
// it is the device's.
#pragma once

#include "page_guard.hpp"
#include "range_counts.hpp"

#include <cstdint>

namespace coherdma::check {

class owned_memory {
  public:
    /// From now on it is known which memory is the device's. With a handler, whole pages of it are
    /// protected.
    void start(page_guard::access_handler *handler) noexcept {
        is_started_ = true;
        if (handler != nullptr)
            pages_.start(handler);
    }
    [[nodiscard]] bool is_started() const noexcept { return is_started_; }

    /// can_protect: see named_memory. Returns whether pages are protected. Throws std::bad_alloc.
    bool take(std::uintptr_t begin, std::uintptr_t end, memory_use use, bool can_protect) {
        counts_of(use).add(begin, end, nothing);
        return can_protect && pages_.protect(begin, end, use);
    }
    void give_back(std::uintptr_t begin, std::uintptr_t end, memory_use use,
                   bool is_protected) noexcept;
    /// The range is about to be freed, or replaced.
    void forget(std::uintptr_t begin, std::uintptr_t end) noexcept;

    /// Whether the device may write to the range, or read it if the use is to write to it.
    [[nodiscard]] bool conflicts(std::uintptr_t begin, std::uintptr_t end,
                                 memory_use use) const noexcept {
        return targets_.overlaps(begin, end) ||
               (use == memory_use::TARGET && sources_.overlaps(begin, end));
    }
    [[nodiscard]] bool is_owned(std::uintptr_t begin, std::uintptr_t end) const noexcept {
        return conflicts(begin, end, memory_use::TARGET);
    }
    [[nodiscard]] const page_guard &pages() const noexcept { return pages_; }
    [[nodiscard]] page_guard &pages() noexcept { return pages_; }

  private:
    static void nothing(std::uintptr_t, std::uintptr_t) noexcept {}
    range_counts &counts_of(memory_use use) noexcept {
        return use == memory_use::SOURCE ? sources_ : targets_;
    }

    bool is_started_ = false;
    range_counts sources_, targets_;
    page_guard pages_;
};

} // namespace coherdma::check
