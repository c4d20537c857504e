// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <string>

namespace coherdma::coherency {

/// Whether Linux treats every device as coherent. machine: as uname -m.
bool has_only_coherent_devices(const std::string &machine);

} // namespace coherdma::coherency
