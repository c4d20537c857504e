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

/// Shows progress in one line on stderr if that is a terminal.
void show_progress(std::size_t done, std::size_t total, const std::string &step);
void clear_progress();

} // namespace tools::bench
