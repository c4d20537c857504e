// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// How a rule's evidence is printed, in text and JSON.
#pragma once

#include <coherdma/coherdma.h>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace tools {

/// The heading of a table of rules.
std::string evidence_heading();

/// The rule, its result, its strength and its reason, and below that the source: the file or system
/// call that the rule read, with the value. '>' marks the deciding rule.
std::string evidence_text(const coherdma_evidence &evidence);

nlohmann::ordered_json evidence_json(const coherdma_evidence &evidence);

} // namespace tools
