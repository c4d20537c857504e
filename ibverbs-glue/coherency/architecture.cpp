// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// For these machines Linux has no code at all that maintains a cache for a device: it takes every
// device for coherent, and a device for which that were wrong would not work with any driver.

#include "verdict.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace coherdma::coherency {

finding ask_architecture(const subject &device) {
    constexpr std::array<std::string_view, 10> COHERENT = {
        "x86_64", "i386",  "i486",    "i586",    "i686",
        "s390x",  "ppc64", "ppc64le", "sparc64", "loongarch64"};
    finding found;
    found.source = "uname -m";
    found.value = device.machine;
    if (std::find(COHERENT.begin(), COHERENT.end(), device.machine) == COHERENT.end()) {
        found.reason = "such machines exist with coherent devices and with others";
        return found;
    }
    found.verdict = COHERDMA_COHERENT;
    found.reason = "on such machines devices see the CPU's cache";
    return found;
}

} // namespace coherdma::coherency
