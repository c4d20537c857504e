// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Detects the ABI version of libibverbs from symbols that only some releases have and from the
// offset of a private member, found through a public function. A version is accepted only if all
// results match it; no two versions have the same results.
#pragma once

#include "commands.hpp"

namespace coherdma::abi {

/// The functions that detection uses; tests replace them.
struct detection_functions {
    find_symbol_function *find_symbol;
    ibv_qp_ex *(*to_qp_ex)(ibv_qp *); ///< ibv_qp_to_qp_ex
};

/// What tells the releases of libibverbs apart.
struct abi_traits {
    std::array<bool, num_abi_versions> has_register_symbol; ///< by abi_version
    std::array<bool, 8> has_symbol; ///< by the index in distinctive_symbols, in detect.cpp
    std::size_t comp_mask_offset;   ///< in verbs_qp; 0: not found or ambiguous
};

struct detection {
    const layout *detected; ///< nullptr: no version matches
    const layout *closest;  ///< if none: that with the fewest mismatches; nullptr: no registration
    const char *mismatch;   ///< if none: the first symbol that differs from the closest
};

/// Writes to its own memory only.
abi_traits find_abi_traits(const detection_functions &functions) noexcept;
detection detect_abi(const abi_traits &traits,
                     const std::array<layout, num_abi_versions> &candidates) noexcept;

} // namespace coherdma::abi
