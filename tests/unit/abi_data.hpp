// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The layouts of libibverbs as a compiler saw them in the sources of every release, and the private
// symbols of each: tests/data/abi. A column for each epoch; an empty field: not there.
#pragma once

#include "abi/layout.hpp"

#include <array>
#include <map>
#include <optional>
#include <string>

using of_epochs = std::array<std::optional<std::size_t>, coherdma::abi::epochs>;

/// Offsets of members in bytes, by "struct.member"; "struct.sizeof" is its size.
std::map<std::string, of_epochs> layout_data(coherdma::abi::machine of);

std::map<std::string, of_epochs> symbol_data();
