// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Findings that the user does not want: a file with lines KIND[:DEVICE[:FUNCTION]] and # comments.
// DEVICE and FUNCTION are shell patterns, KIND may be *. FUNCTION is compared with each frame of
// the request, the last sync and the registration; for a frame without a symbol, with the base name
// of its file.
#pragma once

#include "finding_log.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace coherdma::emulation {

struct suppressions {
    struct rule {
        std::string kind, device, function;
    };
    std::vector<rule> rules;
    std::vector<std::string> problems; ///< "FILE:LINE: reason" for each line that is ignored

    [[nodiscard]] bool matches(const finding &) const;
};

suppressions parse_suppressions(std::string_view text, const std::string &file_name);

/// The function of a frame, for a rule: "main" of "main (/usr/bin/rping+0x1234)", "rping" of
/// "?? (/usr/bin/rping+0x1234)".
std::string function_of(const std::string &frame);

/// If the file cannot be read, the result has a problem and no rules.
suppressions read_suppressions(const std::string &file_name);

} // namespace coherdma::emulation
