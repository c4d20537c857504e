// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "datping/wire.hpp"

#include <cstdint>

namespace tools::datping {

/// The data of a round. No byte is the same in the 255 rounds after it, so that what was left of
/// any of them is seen; and nothing repeats along the memory, so that data at a wrong place is.
void fill(std::span<std::byte> memory, std::uint64_t round);

/// Looks at every byte.
damage compare(std::span<const std::byte> memory, std::uint64_t round);

} // namespace tools::datping
