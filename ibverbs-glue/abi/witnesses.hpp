// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Which epoch the libibverbs in this process is of. There are several witnesses: symbols that some
// releases have and others lack, and a public function that reads a private field. An epoch is
// found only if every one of them agrees with it, which is never so for two.
#pragma once

#include "layout.hpp"

namespace coherdma::abi {

/// How libibverbs is asked; tests have it answer otherwise.
struct questions {
    /// The address of a symbol of that version, or nullptr.
    void *(*find)(const char *symbol, const char *version) noexcept;
    /// The queue pair's other face, if its comp_mask says that it has one.
    ibv_qp_ex *(*extended)(ibv_qp *);
};

/// What libibverbs answered.
struct evidence {
    std::array<bool, epochs> enlists; ///< whether it has the epoch's symbol to register a driver
    std::array<bool, 8> has;          ///< whether it has each of the other symbols
    std::size_t comp_mask;            ///< where verbs_qp has it; 0: it was not found, or twice
};

struct finding {
    const layout *found; ///< nullptr: none that is known, or it contradicts itself
    const layout *near;  ///< if not found: the one that most agrees, if it registers drivers at all
    const char *against; ///< if not found: the first witness that speaks against that one
};

/// Writes to nothing but memory of its own.
evidence ask(const questions &libibverbs) noexcept;
finding judge(const evidence &given, const std::array<layout, epochs> &known) noexcept;

} // namespace coherdma::abi
