// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What a peer tells the other: a descriptor of one byte.

#include "log.hpp"

#include <atomic>
#include <cstdint>
#include <new>

namespace {

using descriptor = std::uint8_t; ///< 0 or 1: direct_write_to_pmem

} // namespace

// relaxed, here and in the other configurations: a member stands for itself.
struct rpma_peer_cfg {
    std::atomic<bool> direct_write_to_pmem = false;
};

int rpma_peer_cfg_new(rpma_peer_cfg **pcfg_ptr) {
    if (pcfg_ptr == nullptr)
        return RPMA_E_INVAL;
    auto *const pcfg = new (std::nothrow) rpma_peer_cfg;
    if (pcfg == nullptr)
        return RPMA_E_NOMEM;
    *pcfg_ptr = pcfg;
    return 0;
}

int rpma_peer_cfg_delete(rpma_peer_cfg **pcfg_ptr) {
    if (pcfg_ptr == nullptr)
        return RPMA_E_INVAL;
    delete *pcfg_ptr;
    *pcfg_ptr = nullptr;
    return 0;
}

int rpma_peer_cfg_set_direct_write_to_pmem(rpma_peer_cfg *pcfg, bool supported) {
    if (pcfg == nullptr)
        return RPMA_E_INVAL;
    pcfg->direct_write_to_pmem.store(supported, std::memory_order_relaxed);
    return 0;
}

int rpma_peer_cfg_get_direct_write_to_pmem(const rpma_peer_cfg *pcfg, bool *supported) {
    if (pcfg == nullptr || supported == nullptr)
        return RPMA_E_INVAL;
    *supported = pcfg->direct_write_to_pmem.load(std::memory_order_relaxed);
    return 0;
}

int rpma_peer_cfg_get_descriptor(const rpma_peer_cfg *pcfg, void *desc) {
    if (pcfg == nullptr || desc == nullptr)
        return RPMA_E_INVAL;
    const descriptor value = pcfg->direct_write_to_pmem.load(std::memory_order_relaxed) ? 1 : 0;
    std::memcpy(desc, &value, sizeof value);
    return 0;
}

int rpma_peer_cfg_get_descriptor_size(const rpma_peer_cfg *pcfg, size_t *desc_size) {
    if (pcfg == nullptr || desc_size == nullptr)
        return RPMA_E_INVAL;
    *desc_size = sizeof(descriptor);
    return 0;
}

int rpma_peer_cfg_from_descriptor(const void *desc, size_t desc_size, rpma_peer_cfg **pcfg_ptr) {
    if (desc == nullptr || pcfg_ptr == nullptr)
        return RPMA_E_INVAL;
    if (desc_size < sizeof(descriptor)) {
        RPMA_LOG(RPMA_LOG_LEVEL_ERROR, "a descriptor of a peer's configuration has no bytes");
        return RPMA_E_INVAL;
    }
    rpma_peer_cfg *pcfg = nullptr;
    if (const int ret = rpma_peer_cfg_new(&pcfg))
        return ret;
    descriptor value;
    std::memcpy(&value, desc, sizeof value);
    pcfg->direct_write_to_pmem.store(value != 0, std::memory_order_relaxed);
    RPMA_LOG(RPMA_LOG_LEVEL_INFO, "direct write to persistent memory is %s",
             value != 0 ? "supported" : "not supported");
    *pcfg_ptr = pcfg;
    return 0;
}
