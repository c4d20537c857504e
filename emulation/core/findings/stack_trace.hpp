// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Call stacks of the program.
#pragma once

#include <array>
#include <string>
#include <vector>

namespace coherdma::emulation {

struct stack_trace {
    std::array<void *, 12> frames{}; ///< return addresses, innermost first
    int depth = 0;

    /// Of the calling thread, without the frames of this module.
    static stack_trace capture() noexcept;
};

/// The innermost frame outside RDMA libraries; nullptr if there is none.
void *first_program_frame(const stack_trace &) noexcept;

/// As describe_call(), innermost first, from the first frame outside RDMA libraries to main() or
/// the function of the thread.
std::vector<std::string> to_strings(const stack_trace &);

} // namespace coherdma::emulation
