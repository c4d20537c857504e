// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A libibverbs of any epoch, played: it has the symbols of its release, answers as that would, and
// writes down how it was called.
#pragma once

#include "abi/abi.hpp"
#include "abi/witnesses.hpp"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

struct played {
    std::size_t epoch = 0;
    std::set<std::string> hidden, added; ///< symbols, against what its release has
    std::set<std::size_t> comp_masks;    ///< where it looks for the flag; empty: where it should
    std::size_t more_context = 0;        ///< bytes that its contexts are too large by
    std::size_t more_operations = 0;     ///< operations that its table has too many of
    const void *registered = nullptr;
    std::vector<std::uintptr_t> arguments; ///< of the command that was called last
    coherdma::abi::placed_operations operations = {};
    int contexts = 0; ///< that are open
};

extern played libibverbs;

/// It is of that epoch from now on, and nothing is known of it.
void play(std::size_t epoch);

/// What is asked, to be given to the room.
extern const coherdma::abi::questions to_played;
