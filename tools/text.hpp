// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tools {

/// Breaks a text into lines of at most width characters, at spaces where possible.
std::vector<std::string> wrap_text(std::string_view text, std::size_t width);

/// Replaces control characters, for texts that come from elsewhere.
std::string make_printable(std::string text);

} // namespace tools
