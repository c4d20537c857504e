// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <cstddef>
#include <cstdlib>
#include <type_traits>

namespace coherdma::registry {

/// A std::vector without libstdc++: the registry is not linked to it, so that C and Fortran
/// programs need not load it.
template <typename Item>
class vector {
    static_assert(std::is_trivially_copyable_v<Item>);

  public:
    vector() noexcept = default;
    ~vector() { std::free(items); }
    vector(const vector &) = delete;
    vector &operator=(const vector &) = delete;

    /// Returns false, and leaves the vector unchanged, if memory is exhausted.
    [[nodiscard]] bool push_back(const Item &item) noexcept {
        if (num_items == capacity) {
            const std::size_t new_capacity = capacity != 0 ? 2 * capacity : 8;
            void *new_items = std::realloc(items, new_capacity * sizeof(Item));
            if (!new_items)
                return false;
            items = static_cast<Item *>(new_items);
            capacity = new_capacity;
        }
        items[num_items++] = item;
        return true;
    }

    std::size_t size() const noexcept { return num_items; }
    const Item &operator[](std::size_t i) const noexcept { return items[i]; }
    const Item *begin() const noexcept { return items; }
    const Item *end() const noexcept { return items + num_items; }

  private:
    Item *items = nullptr;
    std::size_t num_items = 0, capacity = 0;
};

} // namespace coherdma::registry
