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

struct driver_line {
    std::size_t line_num; ///< from 1
    std::string name;
};

std::vector<driver_line> parse_driver_lines(std::string_view text);

/// True if the name means coherdma's plugin, in any folder.
bool is_coherdma(std::string_view name);
/// True if the name means rdma-core's plugin for rxe or siw.
bool is_soft_driver(std::string_view name);

/// Appends a coherdma line, or removes all of them. Removal restores the original text exactly,
/// also if it has no newline at its end.
std::string add_coherdma_line(std::string text, const std::string &name);
std::string remove_coherdma_lines(std::string_view text);

} // namespace tools::provider_config
