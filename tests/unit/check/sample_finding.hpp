// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A finding to report.
#pragma once

#include "../cmocka.hpp"
#include "check/format.hpp"

#include <cstddef>
#include <string>

namespace check_test {

using namespace coherdma::check;

/// Of a call that returns to this function.
[[gnu::noinline]] inline finding sample_finding(finding_kind kind = finding_kind::CQ_OVERFLOW) {
    finding sample;
    sample.kind = kind;
    sample.device = "rxe0";
    sample.title = "9 completions can come before one is polled, and CQ 3 has 8 entries";
    sample.events = {{.description = "CQ 3 was created", .stack = {}},
                     {.description = "a Send, wr_id 0x7, is posted",
                      .stack = coherdma::reports::stack_trace::capture_all()}};
    return sample;
}

inline std::size_t count_of(const std::string &text, const std::string &part) {
    std::size_t count = 0;
    for (std::size_t pos = text.find(part); pos != std::string::npos;
         pos = text.find(part, pos + 1))
        ++count;
    return count;
}

} // namespace check_test
