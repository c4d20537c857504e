// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What a program needs whose compiler has added a sanitizer.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace tools::check {

/// Variables for the programs that the command names, also as words of an argument: sh -c
/// "./program". Throws run::not_available_error.
std::map<std::string, std::string> sanitizer_environment(const std::vector<std::string> &command);

} // namespace tools::check
