// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What the forms of an answer have in common.
#pragma once

#include "results.hpp"

#include <utility>

namespace tools::bench {

/// Three digits that count: 0.62, 24.7, 190, 39830; "-" for none.
std::string brief(double value);

/// "before a Read", "around a Write"
std::string occasion(const std::string &call);

const cell *find(const results &all, const std::string &instructions, const std::string &call,
                 const std::string &state, std::size_t bytes);

/// The pairs of instructions and call that were measured, in order.
std::vector<std::pair<std::string, std::string>> ways(const results &all);

} // namespace tools::bench
