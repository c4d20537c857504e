// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Files without debug information, whose functions are named without source lines.
#pragma once

#include <string>
#include <vector>

namespace tools::run {

struct file_without_lines {
    std::string path;
    std::string package; ///< that the file belongs to; "" if it belongs to none
    std::string fix;     ///< "install rdmacm-utils-dbgsym"
};

/// The programs and libraries that these frames name without source lines, sorted by path. Asks the
/// distribution for their packages.
std::vector<file_without_lines> files_without_lines(const std::vector<std::string> &frames);

/// The same as text, after an empty line; "" if there are none.
std::string list_files_without_lines(const std::vector<std::string> &frames);

} // namespace tools::run
