// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A fake libibverbs: has the symbols of an ABI version and records calls.
#pragma once

#include "abi/abi.hpp"
#include "abi/detect.hpp"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

struct fake_libibverbs {
    std::size_t version = 0;             ///< index in layouts
    std::set<std::string> hidden, added; ///< symbols that differ from the version's
    std::set<std::size_t> comp_masks;    ///< offsets read; empty: the version's
    std::size_t more_context = 0;        ///< extra bytes in each context
    std::size_t more_operations = 0;     ///< extra operations in the table
    const void *registered = nullptr;
    std::vector<std::uintptr_t> arguments;     ///< of the last command
    coherdma::abi::ops_table context_ops = {}; ///< that was set
    int contexts = 0;                          ///< open contexts
};

extern fake_libibverbs fake;

/// Selects the ABI version and resets the detection.
void use_release(std::size_t version);

extern const coherdma::abi::detection_functions fake_detection_functions;
