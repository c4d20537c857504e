// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "results.hpp"

#include <cstdint>

namespace tools::bench {

/// Describes the machine on which this process runs. line_size: of the CPU's cache, in bytes.
machine_info describe_machine(std::uint32_t line_size);

/// The current time, as 2024-02-29T12:00:00Z.
std::string utc_now();

} // namespace tools::bench
