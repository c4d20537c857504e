// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What the sync calls are compared with: nothing but the cache instruction, line after line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tools::bench {

/// Each function issues the instruction for the lines from the address begin to end, without
/// waiting; wait_for_cache_instructions() does.
struct raw_loop {
    std::string_view instructions; ///< as in coherdma_cpu_attr.choices
    void (*writeback)(std::uintptr_t begin, std::uintptr_t end, std::size_t line_size);
    void (*writeback_invalidate)(std::uintptr_t begin, std::uintptr_t end, std::size_t line_size);
};

/// nullptr if there is none for this CPU.
const raw_loop *find_raw_loop(std::string_view instructions);

/// Waits until all issued instructions are complete. The fence at the end of a sync can be weaker:
/// it only orders later accesses, so a time taken after it would be that of the issue.
void wait_for_cache_instructions();

} // namespace tools::bench
