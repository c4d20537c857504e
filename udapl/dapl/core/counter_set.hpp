// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The counters of one IA, EP or EVD; see extensions/counters.hpp. EPs and EVDs use a part of the
// array.
#pragma once

#include <array>
#include <atomic>
#include <dat2/dat_ib_extensions.h>

namespace coherdma::dapl {

struct counter_set {
    void add(unsigned counter, DAT_UINT64 value = 1) noexcept {
        values.at(counter).fetch_add(value, std::memory_order_relaxed);
    }

    std::array<std::atomic<DAT_UINT64>, DCNT_IA_ALL_COUNTERS> values = {};
    std::atomic<bool> connect_called = false;    ///< EP: until its ESTABLISHED event
    std::atomic<bool> disconnect_called = false; ///< EP: until its DISCONNECTED event
    /// IA: the port's counters at the last reset.
    std::array<std::atomic<DAT_UINT64>, DCNT_IA_ALL_COUNTERS> port_base = {};
    std::array<std::atomic<bool>, DCNT_IA_DIAG + 1> stopped = {}; ///< IA: by DAT_IA_COUNTER_TYPE
};

} // namespace coherdma::dapl
