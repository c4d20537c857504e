// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What the process has of the system.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace scale {

struct usage {
    std::size_t allocated; ///< bytes of malloc's that are in use
    std::size_t resident;  ///< bytes of memory
    std::size_t mappings, descriptors, threads;
    std::vector<std::string> files; ///< the descriptors
};

/// To be called first: all threads' memory comes from one heap, so that it can be counted.
void use_one_heap();
usage read_usage();
/// Ends the program if there are more threads, also a second later.
void require_threads(std::size_t max_threads);
/// Prints both, and ends the program if there is more of anything after the work than before.
void require_no_growth(const char *work, const usage &before, const usage &after);

} // namespace scale
