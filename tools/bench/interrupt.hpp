// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <cstddef>
#include <string>

namespace tools::bench {

/// While it exists, the first SIGINT sets is_interrupted(); the second one ends the process.
class sigint_guard {
  public:
    sigint_guard();
    ~sigint_guard();
    sigint_guard(const sigint_guard &) = delete;
    sigint_guard &operator=(const sigint_guard &) = delete;
    static bool is_interrupted();
};

/// Shows in one line on stderr, if that is a terminal, which step has begun.
void show_progress(std::size_t num_done, std::size_t num_steps, const std::string &step);
void clear_progress();

} // namespace tools::bench
