// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Where in the program something was called.
#pragma once

#include <array>
#include <string>
#include <vector>

namespace coherdma::emulation {

struct trace {
    std::array<void *, 12> at{};
    int depth = 0;

    /// Of the calling thread, from the first caller outside of this module on.
    static trace here() noexcept;
};

/// The innermost frame that is not of a library of RDMA; nullptr if there is none.
void *first_of_program(const trace &) noexcept;

/// "main (/usr/bin/rping+0x1234)", innermost first; without those of libraries of RDMA at its
/// beginning. addr2line -e FILE OFFSET has the line of the call. "??": a function without a name.
std::vector<std::string> in_words(const trace &);

} // namespace coherdma::emulation
