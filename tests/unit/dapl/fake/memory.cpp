// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Protection domains, memory regions and windows, and address handles.

#include "fabric.hpp"
#include "operations.hpp"

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <memory>

using namespace fake;

namespace {

/// The upper 24 bits of a key; the low byte is free for ibv_inc_rkey.
std::uint32_t new_key() {
    auto &state = get_fabric();
    if (!state.reuse_keys || state.free_keys.empty())
        return ++state.next_key << 8;
    const std::uint32_t key = state.free_keys.back();
    state.free_keys.pop_back();
    return key;
}

void free_key(std::uint32_t key) {
    get_fabric().free_keys.push_back(key & ~std::uint32_t{0xff});
}

/// Whether the whole range is mapped readable, and writable if required.
bool is_mapped(const void *addr, std::size_t length, bool writable) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE *)> maps(std::fopen("/proc/self/maps", "re"),
                                                                std::fclose);
    if (!maps)
        die("/proc/self/maps cannot be read");
    auto pos = reinterpret_cast<std::uintptr_t>(addr);
    const std::uintptr_t end = pos + length;
    char line[1024];
    while (pos < end && std::fgets(line, sizeof line, maps.get()) != nullptr) {
        std::uintptr_t map_begin = 0, map_end = 0;
        char access[5] = {};
        if (std::sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", &map_begin, &map_end, access) == 3 &&
            map_begin <= pos && pos < map_end && access[0] == 'r' &&
            (!writable || access[1] == 'w'))
            pos = map_end;
    }
    return pos >= end;
}

ibv_mr *register_memory(ibv_pd *ibpd, void *addr, std::size_t length, std::uint64_t iova,
                        unsigned access) {
    const library_call_guard call;
    if (const int error = injected_error("ibv_reg_mr")) {
        errno = error;
        return nullptr;
    }
    constexpr unsigned remote_writes = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    if ((access & remote_writes) != 0 && (access & IBV_ACCESS_LOCAL_WRITE) == 0) {
        errno = EINVAL;
        return nullptr;
    }
    if ((access & IBV_ACCESS_REMOTE_ATOMIC) != 0 &&
        get_fabric().device_of(ibpd->context).attr.atomic_cap == IBV_ATOMIC_NONE) {
        errno = EINVAL;
        return nullptr;
    }
    if (!get_fabric().allow_unmapped_memory &&
        !is_mapped(addr, length, (access & IBV_ACCESS_LOCAL_WRITE) != 0)) {
        errno = EFAULT;
        return nullptr;
    }
    auto *const mr = new fake_mr;
    mr->context = ibpd->context;
    mr->pd = ibpd;
    mr->addr = addr;
    mr->length = length;
    mr->iova = iova;
    mr->access = access;
    const std::uint32_t key = new_key();
    // Different, to detect an lkey used as an rkey.
    mr->lkey = key | 1;
    mr->rkey = key | 2;
    get_fabric().mr_by_lkey[mr->lkey] = mr;
    get_fabric().mr_by_rkey[mr->rkey] = mr;
    ++static_cast<fake_pd *>(ibpd)->refs;
    get_fabric().adjust_object_count("ibv_mr", 1);
    return mr;
}

} // namespace

namespace fake {

fake_mr *fabric::find_mr(std::uint32_t key) const {
    const auto it = mr_by_lkey.find(key);
    return it != mr_by_lkey.end() ? it->second : nullptr;
}

ibv_mw *alloc_mw(ibv_pd *ibpd, ibv_mw_type type) {
    const library_call_guard call;
    if (const int error = injected_error("ibv_alloc_mw")) {
        errno = error;
        return nullptr;
    }
    auto *const mw = new fake_mw;
    mw->context = ibpd->context;
    mw->pd = ibpd;
    mw->type = type;
    mw->rkey = new_key();
    get_fabric().mw_by_key[mw->rkey >> 8] = mw;
    ++static_cast<fake_pd *>(ibpd)->refs;
    get_fabric().adjust_object_count("ibv_mw", 1);
    return mw;
}

int dealloc_mw(ibv_mw *ibmw) {
    const library_call_guard call;
    auto *const mw = static_cast<fake_mw *>(ibmw);
    if (mw->mr != nullptr)
        --mw->mr->num_bound_mws;
    get_fabric().mw_by_key.erase(mw->rkey >> 8);
    free_key(mw->rkey);
    --static_cast<fake_pd *>(mw->pd)->refs;
    get_fabric().adjust_object_count("ibv_mw", -1);
    delete mw;
    return 0;
}

} // namespace fake

extern "C" {

ibv_pd *ibv_alloc_pd(ibv_context *context) {
    const library_call_guard call;
    if (const int error = injected_error("ibv_alloc_pd")) {
        errno = error;
        return nullptr;
    }
    auto *const pd = new fake_pd;
    pd->context = context;
    ++static_cast<fake_context *>(context)->refs;
    get_fabric().adjust_object_count("ibv_pd", 1);
    return pd;
}

int ibv_dealloc_pd(ibv_pd *ibpd) {
    const library_call_guard call;
    auto *const pd = static_cast<fake_pd *>(ibpd);
    if (pd->refs != 0)
        die("ibv_dealloc_pd while %d objects use it", pd->refs);
    --static_cast<fake_context *>(pd->context)->refs;
    get_fabric().adjust_object_count("ibv_pd", -1);
    delete pd;
    return 0;
}

ibv_mr *(ibv_reg_mr)(ibv_pd *ibpd, void *addr, std::size_t length, int access) {
    return register_memory(ibpd, addr, length, reinterpret_cast<std::uintptr_t>(addr),
                           static_cast<unsigned>(access));
}
ibv_mr *(ibv_reg_mr_iova)(ibv_pd *ibpd, void *addr, std::size_t length, std::uint64_t iova,
                          int access) {
    return register_memory(ibpd, addr, length, iova, static_cast<unsigned>(access));
}
ibv_mr *ibv_reg_mr_iova2(ibv_pd *ibpd, void *addr, std::size_t length, std::uint64_t iova,
                         unsigned access) {
    return register_memory(ibpd, addr, length, iova, access);
}

int ibv_dereg_mr(ibv_mr *ibmr) {
    if (get_fabric().during_dereg_mr)
        get_fabric().during_dereg_mr();
    const library_call_guard call;
    auto *const mr = static_cast<fake_mr *>(ibmr);
    if (mr->num_bound_mws != 0)
        return EINVAL; // as rxe
    get_fabric().mr_by_lkey.erase(mr->lkey);
    get_fabric().mr_by_rkey.erase(mr->rkey);
    free_key(mr->lkey);
    --static_cast<fake_pd *>(mr->pd)->refs;
    get_fabric().adjust_object_count("ibv_mr", -1);
    delete mr;
    return 0;
}

ibv_ah *ibv_create_ah(ibv_pd *ibpd, ibv_ah_attr *attr) {
    const library_call_guard call;
    if (const int error = injected_error("ibv_create_ah")) {
        errno = error;
        return nullptr;
    }
    auto *const ah = new fake_ah;
    ah->context = ibpd->context;
    ah->pd = ibpd;
    ah->attr = *attr;
    ++static_cast<fake_pd *>(ibpd)->refs;
    get_fabric().adjust_object_count("ibv_ah", 1);
    return ah;
}

int ibv_destroy_ah(ibv_ah *ibah) {
    const library_call_guard call;
    auto *const ah = static_cast<fake_ah *>(ibah);
    --static_cast<fake_pd *>(ah->pd)->refs;
    get_fabric().adjust_object_count("ibv_ah", -1);
    delete ah;
    return 0;
}
}
