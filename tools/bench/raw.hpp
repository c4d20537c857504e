// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What the library is measured against: nothing but the instruction, line after line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tools::bench {

/// Over the lines from begin to end; the instructions are issued, complete() waits for them.
struct raw_loop {
    std::string_view instructions; ///< as in coherdma_cpu_attr.choices
    void (*clean)(std::uintptr_t begin, std::uintptr_t end, std::size_t line);
    void (*flush)(std::uintptr_t begin, std::uintptr_t end, std::size_t line);
};

/// nullptr if there is none for this CPU.
const raw_loop *find_raw(std::string_view instructions);

/// Waits until all that was issued is done. The fence with which a sync ends may do less: it need
/// only order what comes after, and a time taken then is that of the issue.
void complete();

} // namespace tools::bench
