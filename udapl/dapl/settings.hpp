// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What users of uDAPL have tuned by the environment for years, and still may.
#pragma once

#include <cstdint>

namespace coherdma::dapl::settings {

/// DAPL_MAX_INLINE: bytes that are copied into the request; 64.
std::uint32_t max_inline() noexcept;
/// DAPL_ACK_RETRY, DAPL_RNR_RETRY: 0 to 7; 7, which for the latter is for ever.
std::uint8_t ack_retry() noexcept;
std::uint8_t rnr_retry() noexcept;
/// DAPL_RNR_TIMER: 1 to 31, the code of InfiniBand; 12, 0.64 ms.
std::uint8_t rnr_timer() noexcept;
/// DAPL_CM_ARP_TIMEOUT_MS, DAPL_CM_ROUTE_TIMEOUT_MS: 4000.
int arp_timeout() noexcept;
int route_timeout() noexcept;
/// DAPL_CM_ARP_RETRY_COUNT, DAPL_CM_ROUTE_RETRY_COUNT: 15.
int arp_retries() noexcept;
int route_retries() noexcept;
/// COHERDMA_COUNTERS: 1, calls and events are counted; 0.
bool counters() noexcept;

} // namespace coherdma::dapl::settings
