// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "coherency/evidence.hpp"

#include "text.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

namespace tools {
namespace {

constexpr std::size_t WIDTH = 79;
constexpr std::size_t INDENT = 38; // of the last column

/// A text in the last column.
std::string in_last_column(const std::string &text) {
    std::string lines;
    for (const std::string &line : wrap_text(text, WIDTH - INDENT))
        lines += fmt::format("{:{}}{}\n", "", INDENT, line);
    return lines;
}

} // namespace

std::string evidence_heading() {
    return fmt::format("  {:<13} {:<12} {:<8} {}\n", "RULE", "RESULT", "STRENGTH",
                       "REASON, AND WHERE IT WAS READ");
}

std::string evidence_text(const coherdma_evidence &evidence) {
    const bool has_result = evidence.coherency != COHERDMA_UNKNOWN;
    const std::string reason = in_last_column(evidence.reason);
    std::string text = fmt::format(
        "{} {:<13} {:<12} {:<8} {}", evidence.decided ? '>' : ' ', evidence.rule,
        has_result ? coherdma_coherency_str(evidence.coherency) : "nothing",
        has_result ? coherdma_strength_str(evidence.strength) : "", reason.substr(INDENT));
    std::string source = evidence.source;
    if (*evidence.value)
        source += std::string(": ") + evidence.value;
    if (!source.empty())
        text += in_last_column(source);
    return text;
}

nlohmann::ordered_json evidence_json(const coherdma_evidence &evidence) {
    return {{"rule", evidence.rule},
            {"coherency", coherdma_coherency_str(evidence.coherency)},
            {"strength", coherdma_strength_str(evidence.strength)},
            {"source", evidence.source},
            {"value", evidence.value},
            {"reason", evidence.reason},
            {"decided", evidence.decided != 0}};
}

} // namespace tools
