// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Counters of IAs, EPs and EVDs: how often what was called, and what came of it. They cost nothing
// while they are not wanted: then the table of functions that programs call has none that counts.
#pragma once

#include "dapl/result.hpp"

#include <array>
#include <atomic>
#include <cstdarg>
#include <dat2/dat_ib_extensions.h>
#include <dat2/dat_registry.h>

namespace coherdma::dapl {

struct device;

namespace extensions {

/// Those of one object; EPs and EVDs use the first of them.
struct counters {
    void add(unsigned which, DAT_UINT64 how_many = 1) noexcept {
        values.at(which).fetch_add(how_many, std::memory_order_relaxed);
    }

    std::array<std::atomic<DAT_UINT64>, DCNT_IA_ALL_COUNTERS> values = {};
    std::atomic<bool> connects = false; ///< an EP: it asked for its connection
    std::atomic<bool> ended = false;    ///< an EP: it asked for the end
    /// An IA: what the port's counters said when the program began to sample.
    std::array<std::atomic<DAT_UINT64>, DCNT_IA_ALL_COUNTERS> begun = {};
    std::array<std::atomic<bool>, DCNT_IA_DIAG + 1> stopped = {}; ///< by DAT_IA_COUNTER_TYPE
};

/// Has the functions counted that can be.
void count_calls(DAT_PROVIDER &table) noexcept;

/// dat_ib_query_counters, _print_counters, _start_counter, _stop_counter.
DAT_RETURN operate_counters(DAT_HANDLE handle, DAT_EXTENDED_OP operation,
                            std::va_list arguments) noexcept;

/// The port's own counter of this number, as the kernel tells it; 0 where it has none.
DAT_UINT64 counter_of_port(const device &on, unsigned which) noexcept;
inline constexpr unsigned first_of_link = DCNT_IA_LNK_ERR_RCV;
inline constexpr unsigned first_of_diagnostics = DCNT_IA_DIAG_ERR_RQ_RAE;

const char *name_of(DAT_HANDLE_TYPE kind, unsigned counter) noexcept;

} // namespace extensions
} // namespace coherdma::dapl
