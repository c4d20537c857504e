// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Access to the program's memory. The program may unmap or protect it at any moment: that is an
// error here, not a signal. The program's threads may store to it at the same time: none of their
// stores is lost.
#pragma once

#include <cstddef>
#include <cstdint>

namespace coherdma::emulation::program_memory {

using word = std::uint64_t;

/// Returns 0, or EFAULT if not all of it can be read.
int read(std::uintptr_t addr, void *buf, std::size_t length) noexcept;

/// Replaces aligned words from expected to desired, but skips those that are not expected any more.
/// Returns 0, or EFAULT: then nothing is changed. *num_skipped: the number of skipped words.
int replace_words(std::uintptr_t addr, const word *expected, const word *desired, std::size_t count,
                  std::size_t *num_skipped) noexcept;

} // namespace coherdma::emulation::program_memory
