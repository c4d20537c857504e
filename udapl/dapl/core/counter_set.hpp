// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The counters of one IA, EP or EVD: calls, events and bytes; only with COHERDMA_COUNTERS=1. EPs
// and EVDs use a part of the array.
#pragma once

#include "settings.hpp"

#include <array>
#include <atomic>
#include <dat2/dat_ib_extensions.h>
#include <memory>
#include <new>

namespace coherdma::dapl {

struct counter_set {
    void add(unsigned counter, DAT_UINT64 value = 1) noexcept {
        values.at(counter).fetch_add(value, std::memory_order_relaxed);
    }
    /// Adds to a counter of operations, and to the next one, which counts their bytes.
    void add_with_bytes(unsigned counter, DAT_UINT64 bytes) noexcept {
        add(counter);
        add(counter + 1, bytes);
    }

    std::array<std::atomic<DAT_UINT64>, DCNT_IA_ALL_COUNTERS> values = {};
    std::atomic<bool> connect_called = false;    ///< EP: until its ESTABLISHED event
    std::atomic<bool> disconnect_called = false; ///< EP: until its DISCONNECTED event
    /// IA: the port's counters at the last reset.
    std::array<std::atomic<DAT_UINT64>, DCNT_IA_ALL_COUNTERS> port_base = {};
    std::array<std::atomic<bool>, DCNT_IA_DIAG + 1> stopped = {}; ///< IA: by DAT_IA_COUNTER_TYPE
};

/// nullptr without COHERDMA_COUNTERS=1, or if out of memory.
inline std::unique_ptr<counter_set> make_counter_set() noexcept {
    return std::unique_ptr<counter_set>(get_settings().counters ? new (std::nothrow) counter_set()
                                                                : nullptr);
}

} // namespace coherdma::dapl
