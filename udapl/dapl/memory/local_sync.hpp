// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Cache maintenance of the local memory of DTOs, for an IA whose device is not coherent
// (dapl_ia::needs_sync). No provider of rdma-core does it. A segment that is not inside an LMR of
// the IA is skipped: the device refuses it, or the LMR has been freed since it was posted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <dat2/udat.h>

namespace coherdma::dapl {

class dapl_ia;
struct dapl_lmr;

/// Before a post: writes the lines back, and invalidates them if the device writes.
void sync_for_device(const dapl_ia &ia, const DAT_LMR_TRIPLET *segments, std::size_t num_segments,
                     bool device_writes) noexcept;
/// After the completion of a DTO of which the device has written at most max_length bytes:
/// invalidates their lines.
void sync_for_cpu(const dapl_ia &ia, const DAT_LMR_TRIPLET *segments, std::size_t num_segments,
                  std::uint64_t max_length) noexcept;

} // namespace coherdma::dapl
