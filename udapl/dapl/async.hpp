// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Asynchronous errors: what a device reports by itself, and what this library does.
#pragma once

#include <dat2/udat.h>

namespace coherdma::dapl {

class ia;
struct evd;
struct ep;
struct srq;

/// The IA gets what its device reports. 0 or an errno.
int hear_of(ia &on) noexcept;
void hear_no_more(ia &on) noexcept;

/// An event of the IA's asynchronous EVD, if it has one.
void report(ia &on, DAT_EVENT_NUMBER number, DAT_HANDLE about, DAT_COUNT reason) noexcept;
void overflown(evd &one) noexcept;

/// It is going: nothing that is under way speaks of it when this returns.
void forget_in_async(const void *one) noexcept;

/// Around a fork, by events.cpp: nothing is being told meanwhile, and the child hears of nothing
/// that its parent opened.
void hold_async() noexcept;
void go_on_async() noexcept;
void forget_async() noexcept;

} // namespace coherdma::dapl
