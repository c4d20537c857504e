// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Reading the counters of IAs, EPs and EVDs (dapl/core/counter_set.hpp).
#pragma once

#include <cstdarg>
#include <dat2/dat_ib_extensions.h>

namespace coherdma::dapl {

struct device;

namespace extensions {

/// dat_ib_query_counters, _print_counters, _start_counter, _stop_counter.
DAT_RETURN counters_op(DAT_HANDLE handle, DAT_EXTENDED_OP operation, std::va_list args) noexcept;

/// The port's counter, read from sysfs; 0 if it has none.
DAT_UINT64 read_port_counter(const device &dev, unsigned counter) noexcept;
inline constexpr unsigned first_port_counter = DCNT_IA_LNK_ERR_RCV;
inline constexpr unsigned first_diag_counter = DCNT_IA_DIAG_ERR_RQ_RAE;

const char *counter_name(DAT_HANDLE_TYPE handle_type, unsigned counter) noexcept;

} // namespace extensions
} // namespace coherdma::dapl
