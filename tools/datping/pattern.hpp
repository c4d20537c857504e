// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "datping/protocol.hpp"

#include <cstdint>

namespace tools::datping {

/// Writes the data of a round. Each byte differs from that of the 255 following rounds, so stale
/// data are detected; the data do not repeat along the memory, so misplaced data are, too.
void fill(std::span<std::byte> memory, std::uint64_t round);

/// Compares every byte with the data of the round.
data_mismatch compare(std::span<const std::byte> memory, std::uint64_t round);

} // namespace tools::datping
