// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tools {

/// A text in lines of at most width characters, broken at blanks where there are any.
std::vector<std::string> wrapped(std::string_view text, std::size_t width);

} // namespace tools
