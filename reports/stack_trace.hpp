// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Call stacks of the program.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace coherdma::reports {

struct stack_trace {
    /// Return addresses, innermost first: enough for those of a program above its libraries.
    std::array<void *, 24> frames{};
    int depth = 0;

    /// Of the calling thread, without the frames of this module.
    static stack_trace capture() noexcept;
    /// Of the calling thread, with the innermost frames, which are no frames of the program.
    /// Faster.
    static stack_trace capture_all() noexcept;
    /// Of these return addresses, innermost first. If there is no room for all, without the first
    /// ones that are in RDMA libraries.
    static stack_trace of_calls(void *const *begin, void *const *end) noexcept;
    /// Of the instruction that a handler of a signal has interrupted on the calling thread, without
    /// the frames of the C library that are inside the program's.
    static stack_trace of_interrupted(const void *instruction) noexcept;
    /// Only that one: for a handler that has little stack.
    static stack_trace of_instruction(const void *instruction) noexcept;
    /// Of the allocation of this memory; empty if the address sanitizer does not run the program.
    static stack_trace of_allocation(const void *) noexcept;
};

/// Whether the program made the call by uDAPL.
bool is_of_udapl(const stack_trace &) noexcept;

/// The file that called libibverbs, without its folder: "librdmacm.so.1", or the program's name.
/// "": not known.
std::string_view caller_of_verbs(const stack_trace &) noexcept;

/// The innermost frame of the program: outside verbs, uDAPL, and communication libraries such as
/// UCX, libfabric and MPI; if all are in these, the outermost one. nullptr: the stack is empty.
void *first_program_frame(const stack_trace &) noexcept;

/// As describe_call(), innermost first, from the first frame of the program to main() or the
/// function of the thread.
std::vector<std::string> to_strings(const stack_trace &);

} // namespace coherdma::reports
