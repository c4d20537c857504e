// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Tools that watch each access of a program's, the address sanitizer and valgrind's memcheck, are
// told of bytes that the device has written and the program has not synced: so they report the
// access itself, with its line. What a tool has to say of memory by itself always stays.
#pragma once

#include "store.hpp"

#include <chrono>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace coherdma::emulation {

struct watcher {
    const char *reports;           ///< who it is, and as what it reports; for people
    std::size_t unit;              ///< bytes that are marked together, on a boundary of as many
    bool (*mark)(span) noexcept;   ///< whole units; false: the program may not reach all of it
    void (*unmark)(span) noexcept; ///< unless that has become something else
    void (*define)(span) noexcept; ///< it was given a value where no tool could see it
};

/// The one that runs this program; nullptr: none.
const watcher *watcher_here() noexcept;

/// As long as it lives on this thread, accesses are the emulation's own, whatever is marked.
class unwatched {
  public:
    unwatched() noexcept;
    ~unwatched();
    unwatched(const unwatched &) = delete;
    unwatched &operator=(const unwatched &) = delete;
};

/// Of lines, by address. Not safe for threads: its owner has a lock.
class marks {
  public:
    explicit marks(const watcher *by) noexcept
        : by_(by) {}
    ~marks() { lift_all({0, ~std::uintptr_t{0}}); }
    marks(const marks &) = delete;
    marks &operator=(const marks &) = delete;

    [[nodiscard]] const watcher *by() const noexcept { return by_; }
    /// What of these bytes, all of one line, can be.
    void put(std::uintptr_t line, span bytes);
    /// The emulation itself has written there.
    void renew(std::uintptr_t line) noexcept;
    void lift(std::uintptr_t line) noexcept;
    void lift_all(span lines) noexcept;
    void define(span bytes) const noexcept;

    /// Whether its being stale, without a sync, was seen so long ago already.
    bool is_old(std::uintptr_t line, std::chrono::steady_clock::duration);

  private:
    struct line {
        std::chrono::steady_clock::time_point seen;
        std::vector<span> marked;
    };
    const watcher *by_;
    std::unordered_map<std::uintptr_t, line> lines_;
};

} // namespace coherdma::emulation
