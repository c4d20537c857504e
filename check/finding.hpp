// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What is wrong with the program's calls.
#pragma once

#include "event_time.hpp"
#include "kinds.hpp"

#include <string>
#include <sys/types.h>
#include <vector>

namespace coherdma::check {

/// What a call has posted.
enum class posted_state : unsigned char {
    NOTHING,
    OUTSTANDING, ///< a request that was outstanding when the finding was made
    COMPLETE,    ///< one whose completion, or the peer's answer, the program polled then
};

/// A call of the program.
struct call_event {
    std::string description; ///< "QP 17 was created"
    stack_trace stack;
    posted_state posted = posted_state::NOTHING;
};

struct finding {
    finding_kind kind = {};
    std::string device;             ///< "rxe0"; "": not known
    std::string title;              ///< "64 completions can come, and the CQ has 16 entries"
    std::vector<call_event> events; ///< of the objects, oldest first; the wrong call is the last
    tick_count time = read_ticks(); ///< when it was made
    pid_t thread = 0;               ///< that makes this call, if another one reports it
};

} // namespace coherdma::check
