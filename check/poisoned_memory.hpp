// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Memory that devices may write, poisoned for the address sanitizer of the program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace coherdma::check {

/// Functions of the sanitizer that runs the program. It marks granules of eight bytes.
struct asan_runtime {
    void (*poison)(const volatile void *addr, std::size_t length);
    void (*unpoison)(const volatile void *addr, std::size_t length);
    /// The first poisoned byte; nullptr: there is none.
    void *(*find_poisoned)(void *begin, std::size_t length);
    /// Of an address: its mark is at (address >> scale) + offset.
    void (*get_shadow_mapping)(std::size_t *scale, std::size_t *offset);
};

/// Not thread-safe.
class poisoned_memory {
  public:
    using owner = std::uint64_t;

    explicit poisoned_memory(const asan_runtime &);

    /// Poisons the whole granules of the range that were not poisoned before by the program.
    /// Throws std::bad_alloc; then remove() removes what was added.
    void add(owner added, std::uintptr_t begin, std::uintptr_t end);
    /// Unpoisons what has no other owner.
    void remove(owner removed, std::uintptr_t begin, std::uintptr_t end) noexcept;
    /// The range is about to be freed: its marks are the sanitizer's.
    void remove_freed(std::uintptr_t begin, std::uintptr_t end) noexcept;
    /// It is about to be unmapped: it is left without marks.
    void remove_unmapped(std::uintptr_t begin, std::uintptr_t end) noexcept;
    /// Without memory of the heap: the segments stay.
    void unpoison_all() const noexcept;

    [[nodiscard]] std::vector<owner> owners_of(std::uintptr_t begin, std::uintptr_t end) const;

  private:
    struct segment {
        std::uintptr_t end = 0;
        std::vector<owner> owners; ///< in the order of their posts
    };
    using segment_map = std::map<std::uintptr_t, segment>; ///< disjoint, by their beginning

    /// The first that ends after the address.
    segment_map::iterator first_after(std::uintptr_t addr) noexcept;
    void split(std::uintptr_t addr);
    void add_new(owner added, std::uintptr_t begin, std::uintptr_t end);
    void unpoison(std::uintptr_t begin, std::uintptr_t end) const noexcept;

    asan_runtime runtime_;
    std::size_t shadow_scale_ = 0, shadow_offset_ = 0;
    segment_map segments_;
};

} // namespace coherdma::check
