// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "address.hpp"
#include "device.hpp"

using namespace coherdma::rpma;

int rpma_utils_get_ibv_context(const char *addr, rpma_util_ibv_context_type type,
                               ibv_context **ibv_ctx_ptr) {
    if (addr == nullptr || ibv_ctx_ptr == nullptr ||
        (type != RPMA_UTIL_IBV_CONTEXT_LOCAL && type != RPMA_UTIL_IBV_CONTEXT_REMOTE))
        return RPMA_E_INVAL;
    const bool is_local = type == RPMA_UTIL_IBV_CONTEXT_LOCAL;
    unique_addrinfo info;
    if (const int ret = get_addrinfo(addr, nullptr, is_local ? side::passive : side::active, info))
        return ret;
    unique_id id;
    if (const int ret = create_id(nullptr, id))
        return ret;
    if (const int ret = is_local ? bind_address(*id, *info)
                                 : resolve_address(*id, *info, RPMA_DEFAULT_TIMEOUT_MS))
        return ret;
    if (id->verbs == nullptr) { // bound to an address of all devices
        RPMA_LOG_ERRNO(ENODEV, "%s is the address of no RDMA device", addr);
        return RPMA_E_PROVIDER;
    }
    // librdmacm keeps the context open when the id is destroyed.
    *ibv_ctx_ptr = id->verbs;
    return 0;
}

int rpma_utils_ibv_context_is_odp_capable(ibv_context *ibv_ctx, int *is_odp_capable) {
    if (ibv_ctx == nullptr || is_odp_capable == nullptr)
        return RPMA_E_INVAL;
    *is_odp_capable = 0;
    device_caps caps;
    if (const int ret = query_device_caps(*ibv_ctx, caps))
        return ret;
    *is_odp_capable = caps.has_odp ? 1 : 0;
    return 0;
}
