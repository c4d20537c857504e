// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Converts work completions to DAT events.
#pragma once

#include "evd.hpp"

#include <cstdint>

namespace coherdma::dapl {

/// Polls the EVD's CQ, under its lock, until a completion has an event. DAT_QUEUE_EMPTY: there is
/// none. As OFED's it lacks the class bit, since consumers compare with it.
DAT_RETURN poll_event(dapl_evd &evd, DAT_EVENT &event) noexcept;

/// Counts an event that the consumer dequeues, if COHERDMA_COUNTERS=1.
void count_event(dapl_evd &evd, const DAT_EVENT &event) noexcept;

DAT_DTO_COMPLETION_STATUS wc_to_dat_status(ibv_wc_status status) noexcept;

} // namespace coherdma::dapl
