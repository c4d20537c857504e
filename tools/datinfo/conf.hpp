// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <string>

namespace tools::datinfo {

/// Two dat.conf entries for each port of this machine's devices; empty if there is none.
std::string format_dat_conf();

} // namespace tools::datinfo
