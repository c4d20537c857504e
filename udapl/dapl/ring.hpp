// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What is known of each posted request until it completes. Its wr_id is the record's address.
#pragma once

#include "lock.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <dat2/udat.h>
#include <memory>

namespace coherdma::dapl {

struct ep;

/// Who posts writes it, who takes the completion reads it. Between them is the device: it learns of
/// the request after what was written before, and verbs' poll reads the completion before anything
/// after it.
struct alignas(64) record {
    DAT_DTO_COMPLETION_EVENT_DATA told; ///< by its event, if all goes well; or of DAT_IB_DTOS
    std::uint64_t after;    ///< the ring's number of the request after it; 0: its end was told
    std::uint32_t received; ///< 1: it is a receive
    void *subject;          ///< of what is no plain DTO; of an SRQ's receive: it
    record *next;           ///< of an SRQ's that are free

    /// nullptr: a receive of an SRQ.
    ep *pair() const noexcept { return static_cast<ep *>(told.ep_handle); }
};

/// Records of one queue of an endpoint, where requests complete in the order of posting. A
/// completion ends all before it, too: those asked for none.
///
/// Devices err: siw's kernel tells of some Reads twice, and without our plugin of what is behind a
/// Read first. So each record's end is told once, and done never goes back. There are twice as many
/// as may be outstanding: one that is reported again is known for it at least until as many others
/// have been posted.
///
/// Who posts holds guard and moves head; who takes completions holds the EVD's lock and moves done.
class ring {
  public:
    lock guard; // first: the short way of posting has no other address to keep

    /// Room for so many, once it is open; all records are like this one. False: no memory.
    bool make(std::uint32_t most, const record &like = {}) noexcept {
        close();
        mask = std::bit_ceil(std::uint64_t{most} * 2) - 1;
        slots.reset(new (std::nothrow) record[mask + 1]);
        head.store(0, std::memory_order_relaxed);
        done.store(0, std::memory_order_relaxed);
        if (slots == nullptr)
            return false;
        std::fill_n(slots.get(), mask + 1, like);
        room = most;
        return true;
    }
    // These need guard. A closed one has no room.
    void open() noexcept { limit = room; }
    void close() noexcept { until = limit = 0; }
    void forget() noexcept {
        done.store(head.load(std::memory_order_relaxed), std::memory_order_release);
    }

    std::uint32_t outstanding() const noexcept {
        // done first: it never passes head, so the difference is never negative.
        const std::uint64_t ended = done.load(std::memory_order_acquire);
        return static_cast<std::uint32_t>(head.load(std::memory_order_acquire) - ended);
    }
    std::uint32_t capacity() const noexcept { return room; }

    /// The next record, or nullptr if all are in use, or it is closed. posted() makes it so.
    record *next() noexcept {
        const std::uint64_t at = head.load(std::memory_order_relaxed);
        if (at >= until) [[unlikely]] {
            // Not each time: it is others who write it. acquire: they have read the record.
            until = done.load(std::memory_order_acquire) + limit;
            if (at >= until)
                return nullptr;
        }
        record *const one = slots.get() + (at & mask);
        if (one == nullptr)
            __builtin_unreachable();
        return one;
    }
    // Release: the record is complete. It is counted before the device can complete it.
    void posted(record &one) noexcept {
        const std::uint64_t after = head.load(std::memory_order_relaxed) + 1;
        number(one).store(after, std::memory_order_relaxed);
        head.store(after, std::memory_order_release);
    }
    void not_posted() noexcept {
        const std::uint64_t at = head.load(std::memory_order_relaxed) - 1;
        number(slots[at & mask]).store(0, std::memory_order_relaxed);
        head.store(at, std::memory_order_release);
    }

    // These need the EVD's lock.

    /// Its number, if neither its end was told nor that of one after it; else 0.
    std::uint64_t awaited(record &one) const noexcept {
        const std::uint64_t after = number(one).load(std::memory_order_relaxed);
        return after > done.load(std::memory_order_relaxed) ? after : 0;
    }
    /// It has ended. Release: the record was read.
    void completed(record &one, std::uint64_t after) noexcept {
        number(one).store(0, std::memory_order_relaxed);
        done.store(after, std::memory_order_release);
    }
    /// Any may have ended. False: it was not posted, or its end was told.
    bool end(record &one) noexcept {
        std::uint64_t after = number(one).load(std::memory_order_relaxed);
        if (after == 0 || after > head.load(std::memory_order_relaxed))
            return false;
        // It may be overtaken and be posted anew at this moment.
        if (!number(one).compare_exchange_strong(after, 0, std::memory_order_relaxed))
            return false;
        if (after > done.load(std::memory_order_relaxed))
            done.store(after, std::memory_order_release);
        return true;
    }

  private:
    static std::atomic_ref<std::uint64_t> number(record &of) noexcept {
        return std::atomic_ref(of.after);
    }

    std::uint64_t until = 0; ///< there is room for those before, at least
    std::uint64_t mask = 0;
    std::unique_ptr<record[]> slots;
    std::atomic<std::uint64_t> head = 0;
    std::uint32_t limit = 0, room = 0;
    alignas(64) std::atomic<std::uint64_t> done = 0;
};

} // namespace coherdma::dapl
