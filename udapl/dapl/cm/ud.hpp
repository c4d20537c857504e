// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// EPs of service type DAT_IB_SERVICE_TYPE_UD. They are not connected to a peer: dat_ep_connect
// resolves a peer's QP, any number of times. Both sides get an event with an address handle of the
// other. The reply of InfiniBand's SIDR gives the peer's QP number to the active side only, so the
// active side sends its own QP number before the private data.
#pragma once

#include "connection.hpp"

#include <cstdarg>

namespace coherdma::dapl::cm {

/// dat_ep_connect and dat_cr_accept of a UD EP, after the check of the arguments.
DAT_RETURN ud_connect(dapl_ep &ep, const address &addr, DAT_TIMEOUT timeout,
                      const void *private_data, DAT_COUNT size) noexcept;
/// Takes the connection request, unless it returns an error: then nothing has changed.
DAT_RETURN ud_accept(dapl_ep &ep, connection *&request, const void *private_data,
                     DAT_COUNT size) noexcept;

/// The offset of the consumer's private data in a connection request.
std::size_t ud_header_size(const connection &conn) noexcept;

/// Of a DAT_IB_UD_CONNECTION_EVENT_ESTABLISHED that no consumer gets.
void ud_destroy_event_ah(const DAT_EVENT &event) noexcept;

DAT_RETURN post_ud_send(dapl_ep &ep, std::va_list args) noexcept;
DAT_RETURN ud_free_ah(dapl_ep &ep, std::va_list args) noexcept;
DAT_RETURN ud_free_peer(dapl_ep &ep, std::va_list args) noexcept;

} // namespace coherdma::dapl::cm
