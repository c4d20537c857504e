// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "rules.hpp"

#include <algorithm>
#include <iterator>

namespace coherdma::coherency {
namespace {

evidence evaluate_unknown(const rule_input &) {
    evidence unknown;
    unknown.reason =
        "no rule has a result; it is treated as non-coherent, which is slower but always correct";
    return unknown;
}

// In order of evaluation; the first with a result decides. "bounce" precedes the others, as they
// only tell whether the device sees the CPU's cache. "registration" precedes what is true of the
// architecture or the firmware in general: it is the kernel's answer for this device.
constexpr rule RULES[] = {
    {"emulation", COHERDMA_STRENGTH_KERNEL, evaluate_emulation},
    {"override", COHERDMA_STRENGTH_ASSUMED, evaluate_override},
    {"software", COHERDMA_STRENGTH_KERNEL, evaluate_software},
    {"bounce", COHERDMA_STRENGTH_KERNEL, evaluate_bounce},
    {"registration", COHERDMA_STRENGTH_KERNEL, evaluate_registration},
    {"architecture", COHERDMA_STRENGTH_KERNEL, evaluate_architecture},
    {"devicetree", COHERDMA_STRENGTH_FIRMWARE, evaluate_devicetree},
    // Exact, but it reads megabytes, so those above come first.
    {"kernel", COHERDMA_STRENGTH_KERNEL, evaluate_kernel},
    {"acpi", COHERDMA_STRENGTH_FIRMWARE, evaluate_acpi},
    {"pcie", COHERDMA_STRENGTH_NONE, evaluate_pcie},
    {"queues", COHERDMA_STRENGTH_NONE, evaluate_queues},
    {"unknown", COHERDMA_STRENGTH_NONE, evaluate_unknown}, // only if no other rule has a result
};

// Says in the last rule which one forbids that the device is coherent, and why.
void explain_doubt(decision &result) {
    const auto doubt = std::ranges::find_if(
        result.rules, [](const evaluated_rule &entry) { return entry.evidence.forbids_coherent; });
    evidence &unknown = result.rules.back().evidence;
    unknown.source = doubt->evidence.source;
    unknown.value = std::string("rule ") + doubt->rule->name;
    unknown.reason = doubt->evidence.reason +
                     "; it is treated as non-coherent, unless coherdma.conf says otherwise";
}

} // namespace

/// Evaluates the rules in order. The first with a result decides, unless an earlier one forbids it.
/// scope says whether the others are evaluated too, for the user.
decision decide(const rule_input &input, rule_scope scope) {
    decision result;
    bool is_decided = false, is_coherent_forbidden = false;
    for (const rule &rule : RULES) {
        result.rules.push_back({&rule, rule.evaluate(input)});
        const evidence &evidence = result.rules.back().evidence;
        if (!is_decided) {
            result.deciding_index = result.rules.size() - 1;
            is_decided = evidence.coherency != COHERDMA_UNKNOWN &&
                         !(evidence.coherency == COHERDMA_COHERENT && is_coherent_forbidden);
        }
        is_coherent_forbidden |= evidence.forbids_coherent;
        if (is_coherent_forbidden && &rule + 1 == std::end(RULES))
            explain_doubt(result);
        // The last rule, "unknown", only says that the others have no result.
        const bool is_only_unknown_left = &rule + 2 == std::end(RULES);
        if (is_decided && (scope == rule_scope::until_decided || is_only_unknown_left))
            break;
    }
    return result;
}

} // namespace coherdma::coherency
