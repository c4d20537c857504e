// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The random numbers of one thread (SplitMix64): the same seed gives the same numbers everywhere.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace sequencer {

class random_source {
  public:
    explicit random_source(std::uint64_t seed)
        : state_(seed * 0x9e3779b97f4a7c15) {}

    std::uint64_t next() {
        std::uint64_t value = state_ += 0x9e3779b97f4a7c15;
        value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
        value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
        return value ^ (value >> 31);
    }
    /// From 0 to limit - 1.
    unsigned number_below(std::size_t limit) {
        return static_cast<unsigned>((next() >> 16) % limit);
    }
    /// True in so many of 100 calls.
    bool percent_chance(unsigned percent) { return number_below(100) < percent; }
    template <class element, std::size_t size>
    const element &choose(const element (&list)[size]) {
        return list[number_below(size)];
    }
    template <class element, std::size_t size>
    const element &choose(const std::array<element, size> &list) {
        return list[number_below(size)];
    }

  private:
    std::uint64_t state_;
};

} // namespace sequencer
