// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A call of the program as a report shows it: where it is, and the source around it.
#pragma once

#include "source.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace coherdma::reports {

struct described_call {
    struct source_line {
        int number = 0;
        std::string text;
    };

    std::string description;         ///< "the completion polled"; "": not known
    std::vector<std::string> stack;  ///< frames of the program, innermost first; none: not known
    source_frame frame;              ///< the one of the stack that names the place
    std::string location;            ///< "mailbox.c:160", "rping+0x2a57"; "": not known
    std::vector<source_line> source; ///< up to three lines around it
};

/// "mailbox.c:160" of "main (/src/mailbox.c:160)", "rping+0x12" of "main (/usr/bin/rping+0x12)".
std::string location_of(const std::string &frame);

/// This frame of its stack names the place. Nothing, if it has no stack.
void set_frame(described_call &, std::size_t index, source_files &);

/// Its lines of source, with a mark at the call.
std::string source_text(const described_call &);

} // namespace coherdma::reports
