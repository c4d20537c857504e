// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Text that a program's memory, files or environment may have had a part in, for people.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace coherdma::reports {

/// Replaces control characters by '?'.
std::string printable(std::string_view);

std::string hex_number(std::uint64_t); ///< "0x1a"

/// "1 error", "2 errors"
std::string count_of(std::size_t count, const char *noun);

/// Words in lines of at most 80 characters, each after the same blanks.
std::string wrapped(const std::string &text, const std::string &indent);

} // namespace coherdma::reports
