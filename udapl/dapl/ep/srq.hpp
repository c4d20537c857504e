// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A shared receive queue (SRQ). Its receives complete in any order, so the free cookies form a FIFO
// list. As in cookie_ring there are twice as many as may be outstanding, to detect spurious CQEs.
#pragma once

#include "cookie_ring.hpp"
#include "dapl/core/object.hpp"
#include "dapl/core/unique_handle.hpp"

#include <cstdint>
#include <vector>

namespace coherdma::dapl {

struct dapl_pz;

struct dapl_srq : object {
    static constexpr DAT_HANDLE_TYPE type = DAT_HANDLE_TYPE_SRQ;
    static constexpr DAT_UINT32 bad_handle = DAT_INVALID_HANDLE_SRQ;
    using object::object;

    /// Sets max_dtos to the size that the device chose, at least min_size, and allocates cookies.
    /// False: no memory.
    bool adjust_size(std::uint32_t min_size) noexcept;
    /// Completes a receive. False: it was not posted, or has completed before. Called with the lock
    /// of its EVD.
    bool complete(dto_cookie &cookie) noexcept;
    /// IBV_EVENT_SRQ_LIMIT_REACHED: reports the low watermark.
    void report_limit() noexcept;

    mutex lock;
    dapl_pz *pz = nullptr;
    std::shared_ptr<ibv_srq> srq;
    /// Grown by adding arrays: the addresses of cookies are wr_ids.
    struct cookie_array {
        std::unique_ptr<dto_cookie[]> cookies;
        std::unique_ptr<DAT_LMR_TRIPLET[]> sinks; ///< max_iov for each; nullptr: coherent device
        std::uint32_t count;
    };
    /// Memory for the sinks of a cookie.
    DAT_LMR_TRIPLET *sinks_of(const dto_cookie &cookie) noexcept;

    std::vector<cookie_array> cookies;
    dto_cookie *free_head = nullptr, **free_tail = &free_head;
    std::uint32_t outstanding = 0, num_cookies = 0;
    DAT_COUNT max_dtos = 0, max_iov = 0;
    DAT_COUNT low_watermark = 0;
    std::atomic<bool> failed = false; ///< DAT_SRQ_STATE_ERROR
};

/// The SRQ was removed.
void destroy_srq(dapl_srq *srq) noexcept;

} // namespace coherdma::dapl
