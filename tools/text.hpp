// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tools {

/// Breaks a text into lines of at most width characters, at spaces where possible.
std::vector<std::string> wrap_text(std::string_view text, std::size_t width);

/// A name and, in a column beside it, lines: in 79 columns, and printable.
std::string format_entry(std::string_view name, const std::vector<std::string> &lines);

/// "1 error", "2 errors"
std::string format_count(std::size_t number, std::string_view singular, std::string_view plural);

/// Removes the directories of a frame's file: "main (mailbox.c:120)", "main (rping+0x34)".
std::string shorten_frame(std::string frame);

/// Replaces control characters, for texts that come from elsewhere.
std::string make_printable(std::string text);

} // namespace tools
