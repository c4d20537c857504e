// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Findings that the user does not want: a file with lines KIND[:DEVICE[:FUNCTION]] and # comments.
// DEVICE and FUNCTION are shell patterns, KIND may be *. FUNCTION is compared with each frame of
// the finding's stacks; for a frame without a symbol, with the base name of its file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace coherdma::reports {

struct suppressions {
    struct rule {
        std::string kind, device, function;
    };
    std::vector<rule> rules;
    std::vector<std::string> problems; ///< "FILE:LINE: reason" for each line that is ignored

    /// frames: of all stacks of the finding.
    [[nodiscard]] bool matches(std::string_view kind, const std::string &device,
                               const std::vector<std::string> &frames) const;
};

/// kinds: the names of all kinds of findings; another name is a problem.
suppressions parse_suppressions(std::string_view text, const std::string &file_name,
                                const std::vector<std::string> &kinds);

/// The function of a frame, for a rule: "main" of "main (/usr/bin/rping+0x1234)", "rping" of
/// "?? (/usr/bin/rping+0x1234)".
std::string function_of(const std::string &frame);

/// A pattern for a rule that matches the device or function with this name: of what would not stand
/// for itself there, any character.
std::string pattern_of(std::string name);

/// If the file cannot be read, the result has a problem and no rules.
suppressions read_suppressions(const std::string &file_name, const std::vector<std::string> &kinds);

} // namespace coherdma::reports
