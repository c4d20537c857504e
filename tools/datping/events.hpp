// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "datping/options.hpp"

#include <chrono>
#include <dat2/udat.h>
#include <optional>

namespace tools::datping {

using clock = std::chrono::steady_clock;

/// Waits are split into intervals of this length, to check for signals, connection events and
/// deadlines.
constexpr std::chrono::milliseconds CHECK_INTERVAL{50};

/// Dequeues an event if one is pending.
std::optional<DAT_EVENT> poll_event(DAT_EVD_HANDLE evd);

/// Waits for an event; returns nothing after the timeout.
std::optional<DAT_EVENT> wait_event_for(DAT_EVD_HANDLE evd, std::chrono::microseconds timeout,
                                        wait_mode mode);

} // namespace tools::datping
