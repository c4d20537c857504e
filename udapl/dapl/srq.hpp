// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A shared receive queue. Its receives end in any order, so their records are a list of free ones:
// the one that was free longest is used first, and there are twice as many as may be outstanding,
// as in a ring, and for the same reason.
#pragma once

#include "object.hpp"
#include "owned.hpp"
#include "ring.hpp"

#include <cstdint>
#include <vector>

namespace coherdma::dapl {

struct pz;

struct srq : object {
    static constexpr DAT_HANDLE_TYPE type = DAT_HANDLE_TYPE_SRQ;
    using object::object;

    /// Learns what the device has made of it, and has records for so many receives. False: no
    /// memory.
    bool fit(std::uint32_t wanted) noexcept;
    /// One has ended, and is free again. False: it was not posted, or has ended before. Called with
    /// its EVD's lock.
    bool end(record &one) noexcept;
    /// The device counted down to the low watermark.
    void limit_reached() noexcept;

    lock guard;
    pz *zone = nullptr;
    owned<ibv_srq, ibv_destroy_srq> queue;
    std::vector<std::unique_ptr<record[]>>
        records;                            ///< grown in parts, for their addresses are known
    record *free = nullptr, **last = &free; ///< and where the next goes that is free
    std::uint32_t outstanding = 0, made = 0;
    DAT_COUNT max_dtos = 0, max_iov = 0; ///< that it has room for
    DAT_COUNT low_watermark = 0;
    bool failed = false;
};

} // namespace coherdma::dapl
