// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <string>

namespace tools::datinfo {

/// The dat.conf entries for each port of this machine's devices: for DAT 2.0 and 1.2, with and
/// without thread safety. Empty if there is no device.
std::string format_dat_conf();

} // namespace tools::datinfo
