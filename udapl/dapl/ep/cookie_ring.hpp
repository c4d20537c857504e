// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The cookie of each posted work request until it completes. Its address is the wr_id.
//
// If the device is not coherent, cookies also have the segments that the device writes (sinks), and
// wr_ids have sync_flag. The paths of a coherent device have no instruction for that: to them a
// ring with sinks is full, and a CQE whose wr_id has the flag is one for wc_to_event().
#pragma once

#include "dapl/core/lock.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <dat2/udat.h>
#include <infiniband/verbs.h>
#include <memory>
#include <new>

namespace coherdma::dapl {

struct dapl_ep;

/// Written by the thread that posts, read by the thread that polls the CQ. The device orders them:
/// ibv_post_send publishes earlier writes, and ibv_poll_cq reads the CQE before anything that
/// follows.
struct alignas(64) dto_cookie {
    /// The event of a successful completion; its operation may be one of DAT_IB_DTOS.
    DAT_DTO_COMPLETION_EVENT_DATA event;
    std::uint64_t seq;     ///< position in the ring, from 1; 0: completed
    std::uint32_t is_recv; ///< 1: a receive
    std::uint32_t num_sinks;
    /// The RMR of a bind; the SRQ of a receive; the EP of a datagram whose completion is
    /// suppressed.
    void *object;
    union {
        dto_cookie *next;       ///< in the SRQ's list of free cookies
        DAT_LMR_TRIPLET *sinks; ///< if the device is not coherent, of a cookie in use
    };

    /// nullptr: a receive of an SRQ.
    dapl_ep *ep() const noexcept { return static_cast<dapl_ep *>(event.ep_handle); }

    /// Keeps as many of the segments as the queue's limit: the device refuses longer lists.
    void set_sinks(const DAT_LMR_TRIPLET *segments, std::size_t num_segments,
                   std::uint32_t max_sinks) noexcept {
        num_sinks = static_cast<std::uint32_t>(std::min<std::size_t>(num_segments, max_sinks));
        std::copy_n(segments, num_sinks, sinks);
    }
};
static_assert(sizeof(dto_cookie) == 64);

/// The operation of a request that makes no event: see drain_requests() in ep.hpp. None of DAT_DTOS
/// and DAT_IB_DTOS.
inline constexpr auto marker_operation = static_cast<DAT_DTOS>(0x4000);
inline bool is_marker(const dto_cookie &cookie) noexcept {
    return cookie.event.operation == marker_operation;
}

/// In a wr_id: the cookie may have sinks. No address of user memory has this bit.
constexpr std::uint64_t sync_flag = std::uint64_t{1} << 63;
inline std::uint64_t to_wr_id(const dto_cookie &cookie, std::uint64_t flag = 0) noexcept {
    return reinterpret_cast<std::uintptr_t>(&cookie) | flag;
}
/// nullptr: it is no address of a cookie.
inline dto_cookie *to_cookie(std::uint64_t wr_id) noexcept {
    const auto addr = static_cast<std::uintptr_t>(wr_id & ~sync_flag);
    return addr % alignof(dto_cookie) == 0 ? reinterpret_cast<dto_cookie *>(addr) : nullptr;
}

/// The cookies of one queue of an EP, whose work requests complete in the order of posting. A CQE
/// also completes all requests before it: they were unsignaled.
///
/// Spurious CQEs: siw's kernel completes some Reads twice and, without our provider plugin,
/// requests behind a Read before it. So each cookie completes once, and cons never decreases. There
/// are twice as many cookies as may be outstanding: a second CQE is detected until that many
/// further requests have been posted.
///
/// Producer index prod: the number of requests posted; the thread that posts holds lock and
/// advances it. Consumer index cons: the seq of the last request known to be complete; the thread
/// that polls the CQ holds the EVD's lock and advances it.
class cookie_ring {
  public:
    mutex lock;

    /// Allocates for max_outstanding requests, each cookie a copy of initial. The ring is closed.
    /// sinks_of_each: 0 for a coherent device. False: no memory.
    bool init(std::uint32_t max_outstanding, const dto_cookie &initial = {},
              std::uint32_t sinks_of_each = 0) noexcept {
        close();
        constexpr std::uint64_t max_markers = 2; // of a disconnect, and of dat_ep_reset
        mask = std::bit_ceil(
                   std::max(std::uint64_t{max_outstanding} * 2, max_outstanding + max_markers)) -
               1;
        cookies.reset(new (std::nothrow) dto_cookie[mask + 1]);
        prod.store(0, std::memory_order_relaxed);
        cons.store(0, std::memory_order_relaxed);
        if (cookies == nullptr)
            return false;
        std::fill_n(cookies.get(), mask + 1, initial);
        max_sinks_ = sinks_of_each;
        sinks.reset();
        if (max_sinks_ != 0) {
            sinks.reset(new (std::nothrow) DAT_LMR_TRIPLET[(mask + 1) * max_sinks_]);
            if (sinks == nullptr)
                return false;
            for (std::uint64_t pos = 0; pos <= mask; ++pos)
                cookies[pos].sinks = &sinks[pos * max_sinks_];
        }
        max_size = max_outstanding;
        return true;
    }

    // With lock held. A closed ring has no room.

    void open() noexcept { (has_sinks() ? limit_with_sinks : limit) = max_size; }
    void close() noexcept { cached_limit = limit = limit_with_sinks = 0; }
    void complete_all() noexcept {
        cons.store(prod.load(std::memory_order_relaxed), std::memory_order_release);
    }

    /// Takes the cookies of a QP that still exists. A completion of one of them makes no event: it
    /// names neither an EP nor an SRQ. With the EVD's lock held, too.
    std::unique_ptr<dto_cookie[]> retire() noexcept {
        complete_all();
        for (std::uint64_t pos = 0; cookies != nullptr && pos <= mask; ++pos) {
            cookies[pos].event.ep_handle = DAT_HANDLE_NULL;
            cookies[pos].event.operation = DAT_DTO_RECEIVE;
            cookies[pos].object = nullptr;
        }
        return std::move(cookies);
    }

    std::uint32_t outstanding() const noexcept {
        // cons before prod: cons never exceeds prod, so the difference is not negative.
        const std::uint64_t completed = cons.load(std::memory_order_acquire);
        return static_cast<std::uint32_t>(prod.load(std::memory_order_acquire) - completed);
    }
    std::uint32_t capacity() const noexcept { return max_size; }
    /// seq: of a request that was posted.
    bool has_completed(std::uint64_t seq) const noexcept {
        return cons.load(std::memory_order_acquire) >= seq;
    }
    bool has_sinks() const noexcept { return max_sinks_ != 0; }
    std::uint32_t max_sinks() const noexcept { return max_sinks_; }

    /// The next free cookie; nullptr if the ring is full or closed, or has sinks. commit() takes
    /// it.
    dto_cookie *peek_free() noexcept {
        const std::uint64_t pos = prod.load(std::memory_order_relaxed);
        if (pos >= cached_limit) [[unlikely]] {
            // Reads cons, which other threads write, only if the cached value does not suffice.
            // acquire: the polling thread has read the cookie.
            cached_limit = cons.load(std::memory_order_acquire) + limit;
            if (pos >= cached_limit)
                return nullptr;
        }
        dto_cookie *const cookie = cookies.get() + (pos & mask);
        if (cookie == nullptr)
            __builtin_unreachable();
        return cookie;
    }
    /// The same for a ring with sinks; nullptr for others.
    dto_cookie *peek_free_with_sinks() noexcept {
        const std::uint64_t pos = prod.load(std::memory_order_relaxed);
        if (pos >= cons.load(std::memory_order_acquire) + limit_with_sinks)
            return nullptr;
        return &cookies[pos & mask];
    }
    /// The same for any ring.
    dto_cookie *peek_any_free() noexcept {
        return has_sinks() ? peek_free_with_sinks() : peek_free();
    }
    /// The next cookie of any ring, also of one that is full or closed, for a marker.
    dto_cookie &peek_next() noexcept {
        return cookies[prod.load(std::memory_order_relaxed) & mask];
    }
    std::uint64_t wr_id_of(const dto_cookie &cookie) const noexcept {
        return to_wr_id(cookie, has_sinks() ? sync_flag : 0);
    }
    /// Before the request is posted, so that it is counted before the device can complete it.
    // release: the cookie is complete.
    void commit(dto_cookie &cookie) noexcept {
        const std::uint64_t seq = prod.load(std::memory_order_relaxed) + 1;
        seq_ref(cookie).store(seq, std::memory_order_relaxed);
        prod.store(seq, std::memory_order_release);
    }
    /// The same for a request. send_flags: IBV_SEND_...
    void commit(dto_cookie &cookie, unsigned send_flags) noexcept {
        last_send_flags = send_flags;
        commit(cookie);
    }
    /// Calls function(wr_id) for each that is outstanding, which may complete it. With the EVD's
    /// lock held, too.
    template <class function>
    void for_each_outstanding(function &&visit) noexcept {
        const std::uint64_t end = prod.load(std::memory_order_relaxed);
        for (std::uint64_t pos = cons.load(std::memory_order_relaxed); pos != end; ++pos)
            visit(wr_id_of(cookies[pos & mask]));
    }
    /// Whether a Read may be outstanding, though a request behind it has completed. True also for
    /// an unsignaled one that has completed. With the EVD's lock held, too.
    bool may_have_read() noexcept {
        const std::uint64_t end = prod.load(std::memory_order_relaxed);
        for (std::uint64_t pos = end > mask ? end - mask - 1 : 0; pos != end; ++pos) {
            dto_cookie &cookie = cookies[pos & mask];
            if (cookie.event.operation == DAT_DTO_RDMA_READ &&
                seq_ref(cookie).load(std::memory_order_relaxed) == pos + 1)
                return true;
        }
        return false;
    }
    std::uint64_t last_seq() const noexcept { return prod.load(std::memory_order_relaxed); }
    /// False also if posting has failed: the flags of the request before are not known.
    bool last_is_signaled() const noexcept { return (last_send_flags & IBV_SEND_SIGNALED) != 0; }
    /// Undoes commit: posting failed.
    void rollback() noexcept {
        const std::uint64_t pos = prod.load(std::memory_order_relaxed) - 1;
        seq_ref(cookies[pos & mask]).store(0, std::memory_order_relaxed);
        last_send_flags = 0;
        prod.store(pos, std::memory_order_release);
    }

    // With the EVD's lock held.

    /// The cookie's seq, if neither it nor a later one has completed; else 0.
    std::uint64_t pending_seq(dto_cookie &cookie) const noexcept {
        const std::uint64_t seq = seq_ref(cookie).load(std::memory_order_relaxed);
        return seq > cons.load(std::memory_order_relaxed) ? seq : 0;
    }
    /// Completes a cookie whose pending_seq is seq.
    // release: the cookie was read.
    void complete(dto_cookie &cookie, std::uint64_t seq) noexcept {
        seq_ref(cookie).store(0, std::memory_order_relaxed);
        cons.store(seq, std::memory_order_release);
    }
    /// Calls function(cookie) for each that complete_checked(cookie) will complete: also for those
    /// of unsignaled requests before it.
    template <class function>
    void for_each_to_complete(dto_cookie &cookie, function &&visit) noexcept {
        const std::uint64_t seq = seq_ref(cookie).load(std::memory_order_relaxed);
        if (seq == 0 || seq > prod.load(std::memory_order_relaxed))
            return;
        for (std::uint64_t pos = cons.load(std::memory_order_relaxed); pos + 1 < seq; ++pos)
            visit(cookies[pos & mask]);
        visit(cookie);
    }
    /// The same for a cookie that need not be outstanding. False: it was not posted, or has
    /// completed before.
    bool complete_checked(dto_cookie &cookie) noexcept {
        std::uint64_t seq = seq_ref(cookie).load(std::memory_order_relaxed);
        if (seq == 0 || seq > prod.load(std::memory_order_relaxed))
            return false;
        // 0 marks it as completed. Compare: if seq <= cons, another thread may post the cookie
        // again meanwhile.
        if (!seq_ref(cookie).compare_exchange_strong(seq, 0, std::memory_order_relaxed))
            return false;
        if (seq > cons.load(std::memory_order_relaxed))
            cons.store(seq, std::memory_order_release);
        return true;
    }

  private:
    static std::atomic_ref<std::uint64_t> seq_ref(dto_cookie &cookie) noexcept {
        return std::atomic_ref(cookie.seq);
    }

    std::uint64_t cached_limit = 0; ///< posting up to this position needs no look at cons
    std::uint64_t mask = 0;
    std::unique_ptr<dto_cookie[]> cookies;
    std::atomic<std::uint64_t> prod = 0;
    unsigned last_send_flags = 0;
    std::uint32_t limit = 0; ///< max_size, or 0 while the ring is closed, or has sinks
    std::uint32_t max_size = 0;
    alignas(64) std::atomic<std::uint64_t> cons = 0;
    std::unique_ptr<DAT_LMR_TRIPLET[]> sinks; ///< max_sinks_ for each cookie
    std::uint32_t limit_with_sinks = 0, max_sinks_ = 0;
};

} // namespace coherdma::dapl
