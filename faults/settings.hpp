// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What the environment asks for: coherdma-fault(1).
#pragma once

#include "scenario.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace coherdma::faults {

struct settings {
    std::vector<fault> faults;  ///< COHERDMA_FAULTS
    std::uint64_t seed = 0;     ///< COHERDMA_FAULT_SEED
    std::string log_file;       ///< COHERDMA_FAULT_LOG; "%p" in it stands for the process's ID
    std::string program;        ///< COHERDMA_FAULT_PROGRAM: only of this name; "": of any
    bool records_calls = false; ///< COHERDMA_FAULT_OPTIONS: calls
    std::string problem;        ///< why it is not valid, with newlines; "": it is

    [[nodiscard]] bool is_empty() const noexcept { return faults.empty() && !records_calls; }
};

/// Of a setuid program: nothing.
settings read_settings();

} // namespace coherdma::faults
