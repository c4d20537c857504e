// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// tests/data/abi: the layouts that a compiler computed from the sources of each ABI version of
// libibverbs, and its private symbols. One column for each version; an empty field: not present.
#pragma once

#include "abi/layout.hpp"

#include <array>
#include <map>
#include <optional>
#include <string>

using per_release = std::array<std::optional<std::size_t>, coherdma::abi::num_abi_versions>;

/// Offsets of members in bytes, by "struct.member"; "struct.sizeof" is its size.
std::map<std::string, per_release> layout_data(coherdma::abi::arch arch);

std::map<std::string, per_release> symbol_data();
