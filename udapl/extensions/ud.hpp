// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Endpoints for datagrams (DAT_IB_SERVICE_TYPE_UD). They are not connected to one peer: to
// "connect" is to learn where a peer's endpoint is, as often as one likes. Both sides get an event
// with an address handle of the other; InfiniBand's service resolution tells the caller only, so
// the caller puts its own queue pair's number before its private data.
#pragma once

#include "dapl/cm/listener.hpp"

#include <cstdarg>

namespace coherdma::dapl::extensions {

bool datagrams(const device &on) noexcept;
inline bool is_datagram(const DAT_EP_ATTR &attr) noexcept {
    return attr.service_type != DAT_SERVICE_TYPE_RC;
}

/// A new queue pair may send and receive at once. 0 or an errno.
int start_datagrams(ep &one) noexcept;

/// dat_ep_connect and dat_cr_accept of such endpoints, their arguments checked.
DAT_RETURN resolve(ep &one, const address &to, DAT_TIMEOUT timeout, const void *data,
                   DAT_COUNT size) noexcept;
/// link: the request's, which it takes.
DAT_RETURN answer(ep &one, cm::connection *link, const void *data, DAT_COUNT size) noexcept;

/// Where the peer's own words begin in a request.
std::size_t before_data(const cm::connection &link) noexcept;

/// All that is left of its peers' resolution ends.
void forget_peers(ep &one) noexcept;

DAT_RETURN post_datagram(ep &one, std::va_list arguments) noexcept;
DAT_RETURN free_address(ep &one, std::va_list arguments) noexcept;
DAT_RETURN free_resolution(ep &one, std::va_list arguments) noexcept;

} // namespace coherdma::dapl::extensions
