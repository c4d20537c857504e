// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "datping/options.hpp"

#include <chrono>
#include <dat2/udat.h>
#include <optional>

namespace tools::datping {

using clock = std::chrono::steady_clock;

/// How long an event is awaited before other things are looked at: Ctrl-C, connections, deadlines.
constexpr std::chrono::milliseconds SLICE{50};

/// The next event, if there is one by now.
std::optional<DAT_EVENT> event_now(DAT_EVD_HANDLE evd);

/// The next event, if there is one within the time.
std::optional<DAT_EVENT> event_within(DAT_EVD_HANDLE evd, std::chrono::microseconds time, how by);

} // namespace tools::datping
