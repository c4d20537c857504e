// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Delivery of the asynchronous events of devices.
#pragma once

namespace coherdma::dapl {

class dapl_ia;

/// Starts delivery of the asynchronous events of the IA's device. 0 or an errno.
int start_async_events(dapl_ia &ia) noexcept;
/// On return none is being delivered.
void stop_async_events(dapl_ia &ia) noexcept;
/// Calls fn for each IA between these two calls; none in the child of a fork.
void for_each_watched_ia(void (*fn)(dapl_ia &)) noexcept;

} // namespace coherdma::dapl
