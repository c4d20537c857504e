// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "verdict.hpp"

#include <iterator>

namespace coherdma::coherency {
namespace {

finding ask_nobody(const subject &) {
    finding none;
    none.reason = "no rule knows; it is treated as non-coherent, which is slower but never wrong";
    return none;
}

constexpr rule RULES[] = {
    {"emulation", ask_emulation},
    {"override", ask_override},
    {"software", ask_software},
    {"architecture", ask_architecture},
    {"registration", ask_registration},
    {"devicetree", ask_devicetree},
    {"acpi", ask_acpi},
    {"pcie", ask_pcie},
    {"unknown", ask_nobody},
};

} // namespace

answer decide(const subject &device, bool every) {
    answer all;
    bool decided = false;
    for (const rule &each : RULES) {
        all.asked.emplace_back(&each, each.ask(device));
        if (!decided) {
            all.decided = all.asked.size() - 1;
            decided = all.asked.back().second.verdict != COHERDMA_UNKNOWN;
        }
        const bool only_one_left = &each + 2 == std::end(RULES);
        if (decided && (!every || only_one_left)) // the last is for when all others were silent
            break;
    }
    return all;
}

} // namespace coherdma::coherency
