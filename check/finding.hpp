// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What is wrong with the program's calls.
#pragma once

#include "kinds.hpp"
#include "reports/stack_trace.hpp"

#include <string>
#include <sys/types.h>
#include <vector>

namespace coherdma::check {

/// A call of the program.
struct call_event {
    std::string description; ///< "QP 17 was created"
    reports::stack_trace stack;
};

struct finding {
    finding_kind kind = {};
    std::string device;             ///< "rxe0"; "": not known
    std::string title;              ///< "64 completions can come, and the CQ has 16 entries"
    std::vector<call_event> events; ///< of the objects, oldest first; the wrong call is the last
    pid_t thread = 0;               ///< that makes this call, if another one reports it
};

} // namespace coherdma::check
