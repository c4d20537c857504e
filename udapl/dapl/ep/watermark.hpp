// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Counts an EP's completed receives of an SRQ that wait in its EVD's queue, for the high
// watermarks.
#pragma once

#include <dat2/udat.h>

namespace coherdma::dapl {

struct dapl_ep;

/// An event enters the EVD's queue. Crossing the soft watermark posts an asynchronous event; the
/// hard one breaks the connection. Called with the EVD's lock.
void srq_recv_enqueued(const DAT_EVENT &event) noexcept;
/// The consumer dequeues it. Called with the EVD's lock.
void srq_recv_dequeued(const DAT_EVENT &event) noexcept;

/// Compares the count with the watermarks.
void check_watermarks(dapl_ep &ep) noexcept;

} // namespace coherdma::dapl
