// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <cstddef>
#include <string>

namespace tools::bench {

/// While it lives, the first Ctrl-C is a wish to stop; the second ends the program as ever.
class interruption {
  public:
    interruption();
    ~interruption();
    interruption(const interruption &) = delete;
    interruption &operator=(const interruption &) = delete;
    static bool wished();
};

/// One line on stderr that changes, if that is a terminal; else nothing.
void show_progress(std::size_t done, std::size_t total, const std::string &what);
void clear_progress();

} // namespace tools::bench
