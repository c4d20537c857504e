// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The program's own memory. It may be gone, or not to be written to, at any moment: then there is
// an error where an instruction would have been a signal. And its threads may write to it
// meanwhile: then none of their stores is lost.
#pragma once

#include <cstddef>
#include <cstdint>

namespace coherdma::emulation::program {

using word = std::uint64_t;

/// Copies it. 0, or EFAULT: not all of it can be read.
int read(std::uintptr_t from, void *into, std::size_t length) noexcept;

/// Makes seen to next, whole words on a boundary of theirs, but leaves those that have become
/// something else. 0, or EFAULT: then nothing is changed. *lost: how many words were left.
int replace(std::uintptr_t at, const word *seen, const word *next, std::size_t count,
            std::size_t *lost) noexcept;

} // namespace coherdma::emulation::program
