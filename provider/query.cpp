// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The function that the plugin exports: coherdmadv_query_device() for programs.

#include "cache/cache.hpp"
#include "rxe/objects.hpp"
#include "siw/objects.hpp"

#include <cerrno>
#include <coherdma/coherdma.h>
#include <coherdma/coherdmadv.h>
#include <cstdio>
#include <cstring>
#include <type_traits>

namespace coherdma::provider {
namespace {

/// The driver that serves the context; RDMA_DRIVER_UNKNOWN: that of another provider.
rdma_driver_id find_driver(const ibv_context *context) noexcept {
    const auto *const device = reinterpret_cast<const abi::verbs_device *>(context->device);
    const auto *const ops = static_cast<const abi::verbs_device_ops *>(device->ops);
    if (ops != nullptr && ops->alloc_context == rxe::alloc_context)
        return RDMA_DRIVER_RXE;
    if (ops != nullptr && ops->alloc_context == siw::alloc_context)
        return RDMA_DRIVER_SIW;
    return RDMA_DRIVER_UNKNOWN;
}

/// The COHERDMADV_CAP_... bits: the operations that the driver has, and those of the device.
std::uint32_t query_caps(ibv_context *context, rdma_driver_id driver_id) noexcept {
    const bool is_rxe = driver_id == RDMA_DRIVER_RXE;
    const abi::verbs_context_ops ops = is_rxe ? rxe::make_context_ops() : siw::make_context_ops();
    std::uint32_t caps = 0;
    const auto add = [&caps](std::uint32_t cap, bool is_supported) {
        if (is_supported)
            caps |= cap;
    };
    add(COHERDMADV_CAP_MEMORY_WINDOW, ops.alloc_mw != nullptr);
    add(COHERDMADV_CAP_QP_EX, ops.create_qp_ex != nullptr);
    add(COHERDMADV_CAP_CQ_EX, ops.create_cq_ex != nullptr);
    add(COHERDMADV_CAP_RESIZE_CQ, ops.resize_cq != nullptr);
    add(COHERDMADV_CAP_THREAD_DOMAIN, ops.alloc_td != nullptr);
    add(COHERDMADV_CAP_ADDRESS_HANDLE, ops.create_ah != nullptr);
    add(COHERDMADV_CAP_MULTICAST, ops.attach_mcast != nullptr);
    add(COHERDMADV_CAP_IMPORT, ops.import_pd != nullptr && ops.import_mr != nullptr);
    if (is_rxe) {
        const std::uint64_t send_ops = rxe::get_supported_send_ops(
            context, IBV_QPT_RC, rxe::QP_EX_WITH_ATOMIC_WRITE | rxe::QP_EX_WITH_FLUSH);
        add(COHERDMADV_CAP_ATOMIC_WRITE, (send_ops & rxe::QP_EX_WITH_ATOMIC_WRITE) != 0);
        add(COHERDMADV_CAP_FLUSH, (send_ops & rxe::QP_EX_WITH_FLUSH) != 0);
    }
    return caps;
}

/// All members but comp_mask.
coherdmadv_device_attr query_device(ibv_context *context, rdma_driver_id driver_id) noexcept {
    coherdmadv_device_attr attr = {};
    attr.driver_id = driver_id;
    attr.caps = query_caps(context, driver_id);
    attr.coherency = COHERDMA_COHERENT;
    attr.line_size = static_cast<std::uint32_t>(cache::line_size());
    std::snprintf(attr.evidence, sizeof attr.evidence, "%s",
                  "the CPU moves the data of a software device");
    return attr;
}

/// The members of a bit of comp_mask end here.
struct member_group {
    std::uint64_t bit;
    std::size_t end;
};
constexpr member_group MEMBER_GROUPS[] = {
    {COHERDMADV_DEVICE_ATTR_COHERENCY, offsetof(coherdmadv_device_attr, driver_id)},
    {COHERDMADV_DEVICE_ATTR_DRIVER, offsetof(coherdmadv_device_attr, mode)},
    {COHERDMADV_DEVICE_ATTR_MODE, offsetof(coherdmadv_device_attr, evidence)},
    {COHERDMADV_DEVICE_ATTR_EVIDENCE, sizeof(coherdmadv_device_attr)},
};
static_assert(std::has_unique_object_representations_v<coherdmadv_device_attr>);

} // namespace
} // namespace coherdma::provider

using namespace coherdma::provider;

/// Sets the members that end within the inlen bytes of the caller's structure, and their bits of
/// comp_mask.
int coherdmadv_query_device(ibv_context *context, coherdmadv_device_attr *attr,
                            std::uint32_t inlen) {
    if (context == nullptr)
        return EINVAL;
    const rdma_driver_id driver_id = find_driver(context);
    if (driver_id == RDMA_DRIVER_UNKNOWN)
        return EOPNOTSUPP;
    if (attr == nullptr || inlen < sizeof attr->comp_mask)
        return EINVAL;
    coherdmadv_device_attr known = query_device(context, driver_id);
    std::size_t filled_size = sizeof known.comp_mask;
    for (const member_group &group : MEMBER_GROUPS)
        if (group.end <= inlen) {
            known.comp_mask |= group.bit;
            filled_size = group.end;
        }
    std::memset(static_cast<void *>(attr), 0, inlen);
    std::memcpy(static_cast<void *>(attr), &known, filled_size);
    return 0;
}
