// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What a report does not have, since it is sent to others.

#include "selftest/report.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>

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

void replace_all(std::string &text, const std::string &hidden, const std::string &replacement) {
    for (std::size_t pos = 0; (pos = text.find(hidden, pos)) != std::string::npos;
         pos += replacement.size())
        text.replace(pos, hidden.size(), replacement);
}

/// Replaces a text of the report wherever it is.
void hide(report &report, const std::string &hidden, const std::string &replacement) {
    for (std::string *text : {&report.device.name, &report.library.explanation,
                              &report.library.sync_problem, &report.test.problem})
        replace_all(*text, hidden, replacement);
    for (coherdma_evidence &rule : report.library.rules)
        for (const char **text : {&rule.source, &rule.value, &rule.reason}) {
            report.library.rule_texts.emplace_back(*text);
            replace_all(report.library.rule_texts.back(), hidden, replacement);
            *text = report.library.rule_texts.back().c_str();
        }
}

} // namespace

const char *const LEFT_OUT =
    "The report has no MAC, GUID, GID, IP address, host name, user name or serial number. Look at "
    "the release of the kernel: the one who built it may have put a name there.";

void hide_private_texts(report &report, const std::string &device_name) {
    if (has_guid(device_name))
        hide(report, device_name, PUBLIC_NAME);
    const char *const config = std::getenv("COHERDMA_CONFIG");
    if (config && *config)
        hide(report, config, "$COHERDMA_CONFIG");
}

} // namespace tools::selftest
