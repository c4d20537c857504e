// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// On these architectures Linux has no cache maintenance for DMA: it treats every device as
// coherent, and a device that is not would not work with any driver.

#include "architecture.hpp"
#include "rules.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace coherdma::coherency {

bool has_only_coherent_devices(const std::string &machine) {
    constexpr std::array<std::string_view, 10> COHERENT_MACHINES = {
        "x86_64", "i386",  "i486",    "i586",    "i686",
        "s390x",  "ppc64", "ppc64le", "sparc64", "loongarch64"};
    return std::find(COHERENT_MACHINES.begin(), COHERENT_MACHINES.end(), machine) !=
           COHERENT_MACHINES.end();
}

/// The rule "architecture" of rules.cpp: Linux treats every device as coherent. COHERDMA_UNKNOWN:
/// the rule has no result.
evidence evaluate_architecture(const rule_input &input) {
    evidence result;
    result.source = "uname -m";
    result.value = input.machine;
    if (!has_only_coherent_devices(input.machine)) {
        result.reason = "this architecture has coherent and non-coherent devices";
        return result;
    }
    result.coherency = COHERDMA_COHERENT;
    result.reason = "devices snoop the CPU's cache on this architecture";
    return result;
}

} // namespace coherdma::coherency
