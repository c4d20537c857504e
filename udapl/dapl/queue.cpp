// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "queue.hpp"

#include <new>

namespace coherdma::dapl {

bool event_queue::grow() noexcept {
    const std::uint32_t wanted = capacity == 0 ? 16 : capacity * 2;
    std::unique_ptr<DAT_EVENT[]> larger(new (std::nothrow) DAT_EVENT[wanted]);
    if (!larger)
        return false;
    for (std::uint32_t at = 0; at != count; ++at)
        larger[at] = events[(first + at) & (capacity - 1)];
    events = std::move(larger);
    capacity = wanted;
    first = 0;
    return true;
}

} // namespace coherdma::dapl
