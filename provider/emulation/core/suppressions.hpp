// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What the user knows of and does not want to hear again: a file of lines
// KIND[:DEVICE[:FUNCTION]], of which what follows a # is a comment. DEVICE and FUNCTION are
// patterns of shells, KIND may be *. A line is about a finding if FUNCTION is that of any frame of
// its request, of the last sync or of the registration; a function without a name is called by the
// name of its file.
#pragma once

#include "findings.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace coherdma::emulation {

struct suppressions {
    struct line {
        std::string kind, device, function;
    };
    std::vector<line> lines;
    std::vector<std::string> problems; ///< "FILE:LINE: what is wrong", of lines left out

    [[nodiscard]] bool match(const finding &) const;
};

suppressions parse_suppressions(std::string_view text, const std::string &name);

/// Of a file; one that cannot be read is a problem, too.
suppressions read_suppressions(const std::string &file);

} // namespace coherdma::emulation
