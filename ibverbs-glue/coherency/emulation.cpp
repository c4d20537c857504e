// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A device that is emulated as non-coherent, on the user's request for this process. This rule
// precedes all others.

#include "rules.hpp"

namespace coherdma::coherency {

/// The rule "emulation" of rules.cpp: coherdma emulates a non-coherent device.
/// COHERDMA_UNKNOWN: the rule has no result.
evidence evaluate_emulation(const rule_input &input) {
    evidence result;
    result.source = "coherdma's emulation";
    if (input.provider_attr == nullptr) {
        result.reason =
            input.context != nullptr ? "not emulated" : "this process cannot open the device";
        return result;
    }
    if (input.provider_attr->coherency != COHERDMA_NON_COHERENT) {
        result.value = coherdma_coherency_str(input.provider_attr->coherency);
        result.reason = "not emulated";
        return result;
    }
    result.coherency = COHERDMA_NON_COHERENT;
    result.value = std::string("mode ") + input.provider_attr->mode;
    result.reason = input.provider_attr->evidence;
    return result;
}

} // namespace coherdma::coherency
