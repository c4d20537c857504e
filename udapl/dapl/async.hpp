// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Delivery of the asynchronous events of devices.
#pragma once

namespace coherdma::dapl {

class dapl_ia;

/// Starts delivery of the device's events to the IA. 0 or an errno.
int async_register(dapl_ia &ia) noexcept;
void async_unregister(dapl_ia &ia) noexcept;

} // namespace coherdma::dapl
