// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Asynchronous events: those of devices, and those of this library.
#pragma once

#include <dat2/udat.h>

namespace coherdma::dapl {

class dapl_ia;
struct dapl_evd;
struct dapl_ep;
struct dapl_srq;

/// Starts delivery of the device's events to the IA. 0 or an errno.
int async_register(dapl_ia &ia) noexcept;
void async_unregister(dapl_ia &ia) noexcept;

/// Posts to the IA's asynchronous EVD, if it has one.
void post_async_event(dapl_ia &ia, DAT_EVENT_NUMBER number, DAT_HANDLE handle,
                      DAT_COUNT reason) noexcept;
void report_overflow(dapl_evd &evd) noexcept;

/// Call before an object is destroyed: on return no asynchronous event for it is being delivered,
/// and no IA posts to it if it is an EVD.
void async_forget(const void *obj) noexcept;

/// Called by event_thread.cpp around a fork: no event is delivered during it, and the child does
/// not watch the devices that the parent opened.
void async_atfork_prepare() noexcept;
void async_atfork_parent() noexcept;
void async_atfork_child() noexcept;

} // namespace coherdma::dapl
