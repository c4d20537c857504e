// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "queue.hpp"

#include <new>

namespace coherdma::dapl {

bool event_queue::grow() noexcept {
    const std::uint32_t new_capacity = capacity == 0 ? 16 : capacity * 2;
    std::unique_ptr<DAT_EVENT[]> larger(new (std::nothrow) DAT_EVENT[new_capacity]);
    if (!larger)
        return false;
    for (std::uint32_t i = 0; i != count; ++i)
        larger[i] = events[(first + i) & (capacity - 1)];
    events = std::move(larger);
    capacity = new_capacity;
    first = 0;
    return true;
}

} // namespace coherdma::dapl
