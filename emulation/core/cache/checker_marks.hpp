// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Marks for memory checkers: ASan and valgrind's memcheck. Bytes that the device wrote and the
// program has not synced are marked, so the checker reports the very access, with file and line.
// What the checker knows of the memory by itself is never changed.
#pragma once

#include "core/memory/addr_range.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <vector>

namespace coherdma::emulation {

struct memory_checker {
    const char *report_text; ///< how the checker reports an access, for people
    std::size_t unit;        ///< size and alignment of what is marked together
    /// Marks whole units. False: the program must not access some of these bytes anyway.
    bool (*mark)(addr_range) noexcept;
    /// Except for bytes that the checker has marked for another reason since.
    void (*unmark)(addr_range) noexcept;
    /// The bytes have been initialized by a store that the checker did not see.
    void (*make_defined)(addr_range) noexcept;
};

/// The checker that runs this program; nullptr: none.
const memory_checker *running_checker() noexcept;

/// During its lifetime the checker reports no access of this thread to marked bytes.
class scoped_checker_disable {
  public:
    scoped_checker_disable() noexcept;
    ~scoped_checker_disable();
    scoped_checker_disable(const scoped_checker_disable &) = delete;
    scoped_checker_disable &operator=(const scoped_checker_disable &) = delete;
};

/// The marks of lines, by address. Not thread-safe.
class checker_marks {
  public:
    explicit checker_marks(const memory_checker *checker) noexcept
        : checker_(checker) {}
    ~checker_marks() { remove_all({0, ~std::uintptr_t{0}}); }
    checker_marks(const checker_marks &) = delete;
    checker_marks &operator=(const checker_marks &) = delete;

    [[nodiscard]] const memory_checker *checker() const noexcept { return checker_; }
    /// Marks the whole units in these bytes, which are all of one line.
    void add(std::uintptr_t line_addr, addr_range bytes);
    /// Marks the line's bytes again, after a store of the emulation.
    void renew(std::uintptr_t line_addr) noexcept;
    void remove(std::uintptr_t line_addr) noexcept;
    void remove_all(addr_range lines) noexcept;
    void make_defined(addr_range bytes) const noexcept;

    /// Whether the line was passed to this function that long ago, and has been stale since.
    bool is_stale_for(std::uintptr_t line_addr, std::chrono::steady_clock::duration age);

  private:
    struct line_state {
        std::chrono::steady_clock::time_point stale_since;
        std::vector<addr_range> marked;
    };
    const memory_checker *checker_;
    std::map<std::uintptr_t, line_state> lines_;
};

} // namespace coherdma::emulation
