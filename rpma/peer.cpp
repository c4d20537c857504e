// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "peer.hpp"

#include <new>

using namespace coherdma::rpma;

namespace {

constexpr int FLUSH_USAGES =
    RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT;

#ifdef COHERDMA_HAS_FLUSH
unsigned to_flush_access(int usage) noexcept {
    return ((usage & RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY) != 0 ? unsigned{IBV_ACCESS_FLUSH_GLOBAL}
                                                               : 0) |
           ((usage & RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT) != 0
                ? unsigned{IBV_ACCESS_FLUSH_PERSISTENT}
                : 0);
}
#else
unsigned to_flush_access(int) noexcept {
    return 0;
}
#endif

/// From RPMA_MR_USAGE_* to enum ibv_access_flags.
unsigned to_access(const rpma_peer &peer, int usage) noexcept {
    const bool needs_remote_write = is_iwarp(*peer.pd->context);
    unsigned access = 0;
    if ((usage & RPMA_MR_USAGE_READ_SRC) != 0)
        access |= IBV_ACCESS_REMOTE_READ;
    if ((usage & RPMA_MR_USAGE_READ_DST) != 0) // The response of iWARP is a Write by the peer.
        access |=
            IBV_ACCESS_LOCAL_WRITE | (needs_remote_write ? unsigned{IBV_ACCESS_REMOTE_WRITE} : 0);
    if ((usage & RPMA_MR_USAGE_WRITE_DST) != 0)
        access |= IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE;
    if ((usage & (RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_RECV)) != 0)
        access |= IBV_ACCESS_LOCAL_WRITE;
    // A peer whose device has no native flush flushes by a Read, whatever this device has.
    if ((usage & FLUSH_USAGES) != 0)
        access |= IBV_ACCESS_REMOTE_READ | (peer.caps.has_flush ? to_flush_access(usage) : 0);
    return access;
}

} // namespace

int rpma_peer::register_memory(void *addr, std::size_t length, int usage, unique_mr &mr) noexcept {
    unsigned access = to_access(*this, usage);
    mr.reset(ibv_reg_mr(pd.get(), addr, length, access));
    // Memory that cannot be pinned, such as that of a file on persistent memory.
    if (mr == nullptr && errno == EOPNOTSUPP && caps.has_odp) {
        access |= IBV_ACCESS_ON_DEMAND;
        mr.reset(ibv_reg_mr(pd.get(), addr, length, access));
    }
    if (mr != nullptr)
        return 0;
    RPMA_LOG_ERRNO(errno, "ibv_reg_mr of %zu bytes at %p, access 0x%x%s", length, addr, access,
                   caps.has_odp ? "" : ", device without on-demand paging");
    return RPMA_E_PROVIDER;
}

int rpma_peer_new(ibv_context *ibv_ctx, rpma_peer **peer_ptr) {
    if (ibv_ctx == nullptr || peer_ptr == nullptr)
        return RPMA_E_INVAL;
    device_caps caps;
    if (const int ret = query_device_caps(*ibv_ctx, caps))
        return ret;
    const char *const name = ibv_get_device_name(ibv_ctx->device);
    if (!caps.has_atomic_write)
        RPMA_LOG(RPMA_LOG_LEVEL_INFO, "%s has no native atomic write: an RDMA Write is used", name);
    if (!caps.has_flush)
        RPMA_LOG(RPMA_LOG_LEVEL_INFO, "%s has no native flush: an RDMA Read is used", name);
    errno = 0; // Providers need not set it.
    rpma_peer::unique_pd pd(ibv_alloc_pd(ibv_ctx));
    if (pd == nullptr) {
        if (errno == 0)
            return RPMA_E_UNKNOWN;
        if (errno == ENOMEM)
            return RPMA_E_NOMEM;
        RPMA_LOG_ERRNO(errno, "ibv_alloc_pd of %s", name);
        return RPMA_E_PROVIDER;
    }
    device_sync *sync = nullptr;
    if (const int ret = device_sync::open(*ibv_ctx, sync))
        return ret;
    sync_ref owned_sync(sync);
    auto *const peer = new (std::nothrow)
        rpma_peer{.pd = std::move(pd), .caps = caps, .sync = std::move(owned_sync)};
    if (peer == nullptr)
        return RPMA_E_NOMEM;
    *peer_ptr = peer;
    return 0;
}

int rpma_peer_delete(rpma_peer **peer_ptr) {
    if (peer_ptr == nullptr)
        return RPMA_E_INVAL;
    const std::unique_ptr<rpma_peer> peer(*peer_ptr);
    *peer_ptr = nullptr;
    return peer == nullptr ? 0 : destroy_verbs(peer->pd, ibv_dealloc_pd, "ibv_dealloc_pd");
}
