// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <cstddef>
#include <cstdlib>
#include <type_traits>

namespace coherdma::registry {

/// An array that grows. The C++ library has a better one, but this library does without it, so that
/// programs in C and Fortran need not load it.
template <typename Item>
class list {
    static_assert(std::is_trivially_copyable_v<Item>);

  public:
    list() noexcept = default;
    ~list() { std::free(items); }
    list(const list &) = delete;
    list &operator=(const list &) = delete;

    /// False if there is no memory; the list is then as it was.
    [[nodiscard]] bool add(const Item &item) noexcept {
        if (used == room) {
            const std::size_t wanted = room != 0 ? 2 * room : 8;
            void *more = std::realloc(items, wanted * sizeof(Item));
            if (!more)
                return false;
            items = static_cast<Item *>(more);
            room = wanted;
        }
        items[used++] = item;
        return true;
    }

    std::size_t size() const noexcept { return used; }
    const Item &operator[](std::size_t place) const noexcept { return items[place]; }
    const Item *begin() const noexcept { return items; }
    const Item *end() const noexcept { return items + used; }

  private:
    Item *items = nullptr;
    std::size_t used = 0, room = 0;
};

} // namespace coherdma::registry
