// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The administrator's configuration precedes what the firmware and the kernel report.

#include "rules.hpp"

namespace coherdma::coherency {

/// The rule "override" of rules.cpp: what coherdma.conf or COHERDMA_COHERENT says of the device.
/// COHERDMA_UNKNOWN: the rule has no result.
evidence evaluate_override(const rule_input &input) {
    evidence result;
    result.source = "configuration";
    const statement *statement =
        input.settings ? find_statement(*input.settings, input.name, input.driver) : nullptr;
    if (!statement) {
        result.reason = "not configured";
        return result;
    }
    result.source = statement->source;
    switch (statement->coherent) {
    case coherent_setting::automatic:
        result.value = "auto";
        result.reason = "the other rules decide";
        break;
    case coherent_setting::yes:
        result.value = "yes";
        result.coherency = COHERDMA_COHERENT;
        result.reason = "configured by the administrator";
        break;
    case coherent_setting::no:
        result.value = "no";
        result.coherency = COHERDMA_NON_COHERENT;
        result.reason = "configured by the administrator";
        break;
    }
    return result;
}

} // namespace coherdma::coherency
