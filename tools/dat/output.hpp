// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <cstdio>

namespace tools::dat {

/// Standard output for our answers alone, line by line. What libraries print to it goes to standard
/// error from the first call on: OFED's write their complaints there. NULL with errno set.
std::FILE *own_output();

} // namespace tools::dat
