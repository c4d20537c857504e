// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "rules.hpp"

#include <iterator>

namespace coherdma::coherency {
namespace {

evidence evaluate_unknown(const rule_input &) {
    evidence unknown;
    unknown.reason =
        "no rule has a result; it is treated as non-coherent, which is slower but always correct";
    return unknown;
}

// In order of evaluation; the first with a result decides.
constexpr rule RULES[] = {
    {"emulation", evaluate_emulation},
    {"override", evaluate_override},
    {"software", evaluate_software},
    {"architecture", evaluate_architecture},
    {"registration", evaluate_registration},
    {"devicetree", evaluate_devicetree},
    {"acpi", evaluate_acpi},
    {"pcie", evaluate_pcie},
    {"queues", evaluate_queues},
    {"unknown", evaluate_unknown}, // only if no other rule has a result
};

} // namespace

/// Evaluates the rules in order. The first with a result decides; scope says whether the others are
/// evaluated too, for the user.
decision decide(const rule_input &input, rule_scope scope) {
    decision result;
    bool is_decided = false;
    for (const rule &rule : RULES) {
        result.rules.push_back({&rule, rule.evaluate(input)});
        if (!is_decided) {
            result.deciding_index = result.rules.size() - 1;
            is_decided = result.rules.back().evidence.coherency != COHERDMA_UNKNOWN;
        }
        // The last rule, "unknown", only says that the others have no result.
        const bool is_only_unknown_left = &rule + 2 == std::end(RULES);
        if (is_decided && (scope == rule_scope::until_decided || is_only_unknown_left))
            break;
    }
    return result;
}

} // namespace coherdma::coherency
