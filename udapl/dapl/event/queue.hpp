// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The FIFO of an EVD's events. Grows as needed.
#pragma once

#include <cstdint>
#include <dat2/udat.h>
#include <memory>

namespace coherdma::dapl {

class event_queue {
  public:
    bool empty() const noexcept { return count == 0; }
    std::uint32_t size() const noexcept { return count; }

    /// Makes room for one more event. False: no memory.
    bool ensure_room() noexcept { return count < capacity || grow(); }

    /// The slot of the next event, after ensure_room(). commit() adds it to the queue.
    DAT_EVENT &back() noexcept { return events[(first + count) & (capacity - 1)]; }
    void commit() noexcept { ++count; }

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
