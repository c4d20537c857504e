// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Protects pages of the program that outstanding requests use, so that an access of the CPU is
// noticed. The device is not concerned: it has pinned them.
#pragma once

#include "range_counts.hpp"

#include <cstddef>
#include <cstdint>

namespace coherdma::check {

enum class memory_use : unsigned char {
    SOURCE, ///< the device reads it: the CPU may do so, too
    TARGET, ///< the device writes to it
};

/// An access of the CPU that a protected page has refused.
struct refused_access {
    std::uintptr_t addr = 0;
    const void *code = nullptr;   ///< that made it
    bool is_write = false;        ///< false: a read, or the machine does not say
    bool has_small_stack = false; ///< the handler runs on one on which no calls can be captured
};

/// Of whole pages of memory that the program can read and write.
class page_guard {
  public:
    /// Called on the thread that has made the access. Returns false if the memory is not
    /// protected; else the access can be made now.
    using access_handler = bool(const refused_access &) noexcept;

    /// From now on pages are protected. False: they cannot be.
    bool start(access_handler *) noexcept;

    /// The pages that lie completely in the range. Throws std::bad_alloc. True: until release() of
    /// the same range.
    bool protect(std::uintptr_t begin, std::uintptr_t end, memory_use);
    void release(std::uintptr_t begin, std::uintptr_t end, memory_use) noexcept;
    [[nodiscard]] bool is_protected(std::uintptr_t addr) const noexcept;
    /// The program may use the pages of the range until they are protected again.
    static void open(std::uintptr_t begin, std::uintptr_t end) noexcept;
    /// Calls func() while the pages of the range that are protected here can be used.
    template <class function>
    void lend(std::uintptr_t begin, std::uintptr_t end, function func) const noexcept {
        open_protected(begin, end);
        func();
        protect_again(begin, end);
    }
    /// The range is about to be freed, registered or replaced: it is not protected any more.
    void forget(std::uintptr_t begin, std::uintptr_t end) noexcept;
    /// The same, and nothing is protected until resume().
    void suspend(std::uintptr_t begin, std::uintptr_t end) noexcept {
        ++num_suspensions_;
        forget(begin, end);
    }
    void resume() noexcept { --num_suspensions_; }

  private:
    void apply(std::uintptr_t begin, std::uintptr_t end, memory_use) const noexcept;
    void open_protected(std::uintptr_t begin, std::uintptr_t end) const noexcept;
    void protect_again(std::uintptr_t begin, std::uintptr_t end) const noexcept;
    /// Calls func(begin, end, protection) for pages that follow each other and have the same
    /// protection.
    template <class function>
    void for_each_run(std::uintptr_t begin, std::uintptr_t end, function func) const noexcept;
    [[nodiscard]] int protection_of(std::uintptr_t page) const noexcept;

    range_counts sources_, targets_; ///< of addresses of whole pages
    std::size_t num_ranges_ = 0, num_suspensions_ = 0;
    bool is_started_ = false;
};

} // namespace coherdma::check
