// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <cstdio>

namespace tools::dat {

/// Returns a line-buffered stream to standard output, and redirects file descriptor 1 to standard
/// error, since OFED's libraries print messages to standard output. Returns NULL with errno set on
/// failure.
std::FILE *reserve_stdout();

} // namespace tools::dat
