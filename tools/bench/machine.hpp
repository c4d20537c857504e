// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "results.hpp"

#include <cstdint>

namespace tools::bench {

/// Describes this machine.
machine this_machine(std::uint32_t line_bytes);

/// The current time, as 2024-02-29T12:00:00Z.
std::string utc_now();

} // namespace tools::bench
