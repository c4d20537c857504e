// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Events that wait in an EVD, first in, first out. It grows as it must.
#pragma once

#include <cstdint>
#include <dat2/udat.h>
#include <memory>

namespace coherdma::dapl {

class event_queue {
  public:
    bool empty() const noexcept { return count == 0; }
    std::uint32_t size() const noexcept { return count; }

    /// Room for one more. False: no memory.
    bool room() noexcept { return count < capacity || grow(); }

    /// Where the next event goes, if there is room. pushed() makes it part of the queue.
    DAT_EVENT &back() noexcept { return events[(first + count) & (capacity - 1)]; }
    void pushed() noexcept { ++count; }

    DAT_EVENT &front() noexcept { return events[first & (capacity - 1)]; }
    void pop() noexcept {
        ++first;
        --count;
    }

  private:
    bool grow() noexcept;

    std::unique_ptr<DAT_EVENT[]> events;
    std::uint32_t capacity = 0, first = 0, count = 0;
};

} // namespace coherdma::dapl
