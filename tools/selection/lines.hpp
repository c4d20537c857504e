// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A file of /etc/libibverbs.d as libibverbs reads it. A line "driver NAME" names a plugin, blanks
// are where one likes, # begins a comment. Within a file the later line is tried first; the order
// of the files is that of the folder on its file system, so nobody's. One thing only is sure: a
// plugin named below another one in the same file goes before it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tools::selection {

struct driver_line {
    std::size_t number; ///< from 1
    std::string name;
};

std::vector<driver_line> driver_lines(std::string_view text);

/// Names our plugin, wherever it may lie.
bool is_ours(std::string_view name);
/// Names the plugin of rdma-core for the soft devices, rxe or siw.
bool is_soft(std::string_view name);

/// The text with such a line at its end, and without any. The second undoes the first to the byte,
/// whether the text ended its last line or not.
std::string with_ours(std::string text, const std::string &name);
std::string without_ours(std::string_view text);

} // namespace tools::selection
