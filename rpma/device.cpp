// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "device.hpp"

#include "log.hpp"

namespace coherdma::rpma {

namespace {

// enum ib_uverbs_device_cap_flags of the kernel, which older headers lack.
constexpr std::uint64_t DEVICE_FLUSH_GLOBAL = std::uint64_t{1} << 38;
constexpr std::uint64_t DEVICE_FLUSH_PERSISTENT = std::uint64_t{1} << 39;
constexpr std::uint64_t DEVICE_ATOMIC_WRITE = std::uint64_t{1} << 40;

#ifdef COHERDMA_HAS_FLUSH // since rdma-core 45
constexpr bool HAS_WR_FLUSH = true;
#else
constexpr bool HAS_WR_FLUSH = false;
#endif

bool has_all(std::uint64_t value, std::uint64_t flags) noexcept {
    return (value & flags) == flags;
}

} // namespace

int query_device_caps(ibv_context &context, device_caps &caps) noexcept {
    ibv_device_attr_ex attr = {};
    if (const int error = ibv_query_device_ex(&context, nullptr, &attr)) {
        RPMA_LOG_ERRNO(error, "ibv_query_device_ex of %s", ibv_get_device_name(context.device));
        return RPMA_E_PROVIDER;
    }
    caps = {
        .has_odp = has_all(attr.odp_caps.general_caps, IBV_ODP_SUPPORT) &&
                   has_all(attr.odp_caps.per_transport_caps.rc_odp_caps,
                           IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ),
        .has_atomic_write = has_all(attr.device_cap_flags_ex, DEVICE_ATOMIC_WRITE),
        .has_flush = HAS_WR_FLUSH && has_all(attr.device_cap_flags_ex,
                                             DEVICE_FLUSH_GLOBAL | DEVICE_FLUSH_PERSISTENT),
    };
    return 0;
}

} // namespace coherdma::rpma
