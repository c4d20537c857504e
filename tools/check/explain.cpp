// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The kinds of findings, as text.

#include "check/kinds.hpp"
#include "check/report.hpp"
#include "text.hpp"

#include <fmt/core.h>

namespace tools::check {
namespace {

using namespace coherdma::check;

constexpr std::size_t WIDTH = 79;

std::string format_wrapped(const std::string &text, const std::string &indent) {
    std::string lines;
    for (const std::string &line : wrap_text(text, WIDTH - indent.size()))
        lines += indent + line + "\n";
    return lines;
}

std::string explain(const kind_description &kind) {
    return format_wrapped(
               fmt::format("{} ({}): {}", kind.name, level_name(kind.level), kind.summary), "") +
           "\n" + format_wrapped(kind.why, "  ") + "\n" +
           format_wrapped(std::string("What to do: ") + kind.fix, "  ");
}

} // namespace

std::string list_kinds() {
    constexpr std::size_t INDENT = 35;
    std::string text;
    for (const finding_kind kind : ALL_KINDS) {
        const kind_description &description = describe(kind);
        std::string start =
            fmt::format("{:<26} {:<8}", description.name, level_name(description.level));
        for (const std::string &line : wrap_text(description.summary, WIDTH - INDENT)) {
            text += start + line + "\n";
            start.assign(INDENT, ' ');
        }
    }
    return text;
}

std::string explain_kind(const std::string &name) {
    if (name != "all") {
        const std::optional<finding_kind> kind = parse_kind(name);
        return kind ? explain(describe(*kind)) : "";
    }
    std::string text;
    for (const finding_kind kind : ALL_KINDS)
        text += (text.empty() ? "" : "\n") + explain(describe(kind));
    return text;
}

} // namespace tools::check
