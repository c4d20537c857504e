// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What a report does not have, since it is sent to others.

#include "selftest/report.hpp"

#include <algorithm>
#include <cctype>

namespace tools::selftest {
namespace {

constexpr const char *PUBLIC_NAME = "DEVICE";

/// Whether the name has as many hexadecimal digits in succession as a MAC.
bool has_guid(const std::string &name) {
    constexpr std::size_t MAC_DIGITS = 12;
    std::size_t num_digits = 0;
    return std::any_of(name.begin(), name.end(), [&](unsigned char c) {
        num_digits = std::isxdigit(c) != 0 ? num_digits + 1 : 0;
        return num_digits >= MAC_DIGITS;
    });
}

void replace_all(std::string &text, const std::string &name) {
    const std::string replacement = PUBLIC_NAME;
    for (std::size_t pos = 0; (pos = text.find(name, pos)) != std::string::npos;
         pos += replacement.size())
        text.replace(pos, name.size(), replacement);
}

} // namespace

const char *const LEFT_OUT =
    "The report has no MAC, GUID, GID, IP address, host name, user name or serial number.";

void hide_guid(report &report, const std::string &name) {
    if (!has_guid(name))
        return;
    for (std::string *text : {&report.device.name, &report.library.explanation,
                              &report.library.sync_problem, &report.test.problem})
        replace_all(*text, name);
    for (coherdma_evidence &rule : report.library.rules)
        for (const char **text : {&rule.source, &rule.value, &rule.reason}) {
            report.library.rule_texts.emplace_back(*text);
            replace_all(report.library.rule_texts.back(), name);
            *text = report.library.rule_texts.back().c_str();
        }
}

} // namespace tools::selftest
