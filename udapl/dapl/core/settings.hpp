// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Settings from environment variables. The names are those of OFED's uDAPL.
#pragma once

#include <cstdint>
#include <infiniband/verbs.h>

namespace coherdma::dapl {

constexpr int AS_ROUTE = -1; ///< what rdma_cm says of the route

struct settings {
    std::uint32_t max_inline; ///< DAPL_MAX_INLINE: bytes of inline data per request; default 64
    /// DAPL_ACK_RETRY, DAPL_RNR_RETRY: 0 to 7; default 7. For the latter 7 means infinite.
    std::uint8_t ack_retry, rnr_retry;
    std::uint8_t
        rnr_timer; ///< DAPL_RNR_TIMER: 1 to 31, InfiniBand's encoding; default 12 (0.64 ms)
    /// DAPL_ACK_TIMER: 0 to 31, InfiniBand's encoding; DAPL_HOP_LIMIT, DAPL_TCLASS: 0 to 255. By
    /// default AS_ROUTE.
    int ack_timer, hop_limit, traffic_class;
    ibv_mtu max_path_mtu; ///< DAPL_IB_MTU: bytes; default 4096
    /// DAPL_CM_ARP_TIMEOUT_MS, DAPL_CM_ROUTE_TIMEOUT_MS: default 4000.
    int arp_timeout_ms, route_timeout_ms;
    /// DAPL_CM_ARP_RETRY_COUNT, DAPL_CM_ROUTE_RETRY_COUNT: default 15.
    int arp_retries, route_retries;
};

/// Reads the environment on the first call.
const settings &get_settings() noexcept;

} // namespace coherdma::dapl
