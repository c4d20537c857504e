// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Protection domains, what is registered in them, and address handles.

#include "fabric.hpp"
#include "operations.hpp"

#include <cerrno>

using namespace played;

namespace {

/// A key's upper part; the lower byte is the window's own.
std::uint32_t new_key() {
    fabric &all = net();
    if (!all.reuses_keys || all.free_keys.empty())
        return ++all.next_key << 8;
    const std::uint32_t key = all.free_keys.back();
    all.free_keys.pop_back();
    return key;
}

void free_key(std::uint32_t key) {
    net().free_keys.push_back(key & ~std::uint32_t{0xff});
}

ibv_mr *register_memory(ibv_pd *in, void *at, std::size_t length, std::uint64_t begin,
                        unsigned access) {
    const entered call;
    if (const int error = fault("ibv_reg_mr")) {
        errno = error;
        return nullptr;
    }
    constexpr unsigned writes = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    if ((access & writes) != 0 && (access & IBV_ACCESS_LOCAL_WRITE) == 0) {
        errno = EINVAL;
        return nullptr;
    }
    if ((access & IBV_ACCESS_REMOTE_ATOMIC) != 0 &&
        net().of(in->context).limits.atomic_cap == IBV_ATOMIC_NONE) {
        errno = EINVAL;
        return nullptr;
    }
    auto *const made = new mr;
    made->context = in->context;
    made->pd = in;
    made->addr = at;
    made->length = length;
    made->begin = begin;
    made->access = access;
    const std::uint32_t key = new_key();
    // Not the same, so that one in the other's place is found out.
    made->lkey = key | 1;
    made->rkey = key | 2;
    net().by_lkey[made->lkey] = made;
    net().by_rkey[made->rkey] = made;
    ++static_cast<pd *>(in)->users;
    net().living("ibv_mr", 1);
    return made;
}

} // namespace

namespace played {

mr *fabric::local(std::uint32_t key) const {
    const auto found = by_lkey.find(key);
    return found != by_lkey.end() ? found->second : nullptr;
}

ibv_mw *alloc_mw(ibv_pd *in, ibv_mw_type type) {
    const entered call;
    if (const int error = fault("ibv_alloc_mw")) {
        errno = error;
        return nullptr;
    }
    auto *const made = new mw;
    made->context = in->context;
    made->pd = in;
    made->type = type;
    made->rkey = new_key();
    net().windows[made->rkey >> 8] = made;
    ++static_cast<pd *>(in)->users;
    net().living("ibv_mw", 1);
    return made;
}

int dealloc_mw(ibv_mw *window) {
    const entered call;
    auto *const one = static_cast<mw *>(window);
    if (one->over != nullptr)
        --one->over->windows;
    net().windows.erase(one->rkey >> 8);
    free_key(one->rkey);
    --static_cast<pd *>(one->pd)->users;
    net().living("ibv_mw", -1);
    delete one;
    return 0;
}

} // namespace played

extern "C" {

ibv_pd *ibv_alloc_pd(ibv_context *context) {
    const entered call;
    if (const int error = fault("ibv_alloc_pd")) {
        errno = error;
        return nullptr;
    }
    auto *const made = new pd;
    made->context = context;
    net().living("ibv_pd", 1);
    return made;
}

int ibv_dealloc_pd(ibv_pd *domain) {
    const entered call;
    auto *const one = static_cast<pd *>(domain);
    if (one->users != 0)
        die("ibv_dealloc_pd while %d objects are in it", one->users);
    net().living("ibv_pd", -1);
    delete one;
    return 0;
}

ibv_mr *(ibv_reg_mr)(ibv_pd *in, void *at, std::size_t length, int access) {
    return register_memory(in, at, length, reinterpret_cast<std::uintptr_t>(at),
                           static_cast<unsigned>(access));
}
ibv_mr *(ibv_reg_mr_iova)(ibv_pd *in, void *at, std::size_t length, std::uint64_t begin,
                          int access) {
    return register_memory(in, at, length, begin, static_cast<unsigned>(access));
}
ibv_mr *ibv_reg_mr_iova2(ibv_pd *in, void *at, std::size_t length, std::uint64_t begin,
                         unsigned access) {
    return register_memory(in, at, length, begin, access);
}

int ibv_dereg_mr(ibv_mr *region) {
    const entered call;
    auto *const one = static_cast<mr *>(region);
    if (one->windows != 0)
        die("ibv_dereg_mr while %d windows are bound to it", one->windows);
    net().by_lkey.erase(one->lkey);
    net().by_rkey.erase(one->rkey);
    free_key(one->lkey);
    --static_cast<pd *>(one->pd)->users;
    net().living("ibv_mr", -1);
    delete one;
    return 0;
}

ibv_ah *ibv_create_ah(ibv_pd *in, ibv_ah_attr *attr) {
    const entered call;
    if (const int error = fault("ibv_create_ah")) {
        errno = error;
        return nullptr;
    }
    auto *const made = new ah;
    made->context = in->context;
    made->pd = in;
    made->attr = *attr;
    ++static_cast<pd *>(in)->users;
    net().living("ibv_ah", 1);
    return made;
}

int ibv_destroy_ah(ibv_ah *handle) {
    const entered call;
    auto *const one = static_cast<ah *>(handle);
    --static_cast<pd *>(one->pd)->users;
    net().living("ibv_ah", -1);
    delete one;
    return 0;
}
}
