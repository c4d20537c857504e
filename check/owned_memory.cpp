// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "owned_memory.hpp"

#include <new>

namespace coherdma::check {

void owned_memory::give_back(std::uintptr_t begin, std::uintptr_t end, memory_use use,
                             bool is_protected) noexcept {
    if (is_protected)
        pages_.release(begin, end, use);
    try {
        counts_of(use).remove(begin, end, nothing);
    } catch (const std::bad_alloc &) { // it seems to be the device's: an overlap more is looked for
    }
}

void owned_memory::forget(std::uintptr_t begin, std::uintptr_t end) noexcept {
    pages_.forget(begin, end);
    for (range_counts *const counts : {&sources_, &targets_}) {
        try {
            counts->forget(begin, end, nothing);
        } catch (const std::bad_alloc &) {
        }
    }
}

} // namespace coherdma::check
