// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Files without debug information, whose functions are named without source lines.
#pragma once

#include "emulate/log.hpp"

#include <string>
#include <vector>

namespace tools::emulate {

struct file_without_lines {
    std::string path;
    std::string package; ///< that the file belongs to; "" if it belongs to none
    std::string fix;     ///< "install rdmacm-utils-dbgsym"
};

/// The files that the stacks name without source lines, sorted by path. Asks the distribution for
/// their packages.
std::vector<file_without_lines> files_without_lines(const std::vector<code_location> &locations);

} // namespace tools::emulate
