// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Parses and edits files of /etc/libibverbs.d as libibverbs reads them. A line "driver NAME" names
// a plugin; blanks are allowed around words, # begins a comment. Within a file libibverbs tries the
// last line first. The order of the files is that of the directory and undefined, so a plugin is
// only certain to be tried before another one if it is named below it in the same file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tools::provider_config {

/// A line "driver NAME".
struct driver_line {
    std::size_t line_num; ///< from 1
    std::string name;     ///< a plugin's short name, such as "rxe", or its path without suffix
};

std::vector<driver_line> parse_driver_lines(std::string_view text);

/// Whether NAME in a line "driver NAME" means coherdma's plugin, in any folder.
bool is_coherdma_driver(std::string_view name);
/// Whether it means a soft driver: rdma-core's plugin for rxe or siw.
bool is_soft_driver(std::string_view name);

/// Appends the line "driver NAME", or removes all lines that name coherdma's plugin. Removal
/// restores the original text exactly, also if it has no newline at its end.
std::string add_driver_line(std::string text, const std::string &name);
std::string remove_coherdma_lines(std::string_view text);

} // namespace tools::provider_config
