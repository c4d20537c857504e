// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The administrator's word is final: who knows the board knows more than its firmware says.

#include "verdict.hpp"

namespace coherdma::coherency {

finding ask_override(const subject &device) {
    finding found;
    found.source = "configuration";
    const statement *said = device.told ? about(*device.told, device.name, device.driver) : nullptr;
    if (!said) {
        found.reason = "nothing is said about it";
        return found;
    }
    found.source = said->source;
    switch (said->coherent) {
    case word::automatic:
        found.value = "auto";
        found.reason = "it is left to the other rules";
        break;
    case word::yes:
        found.value = "yes";
        found.verdict = COHERDMA_COHERENT;
        found.reason = "the administrator says so";
        break;
    case word::no:
        found.value = "no";
        found.verdict = COHERDMA_NON_COHERENT;
        found.reason = "the administrator says so";
        break;
    }
    return found;
}

} // namespace coherdma::coherency
