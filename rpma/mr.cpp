// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "mr.hpp"

#include "peer.hpp"

#include <array>
#include <endian.h>
#include <new>

using namespace coherdma::rpma;

namespace {

constexpr int ALL_USAGES =
    RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_WRITE_SRC |
    RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY |
    RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT | RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV;

/// The descriptor of a region, as peers exchange it: little-endian, without padding.
struct [[gnu::packed]] mr_descriptor {
    std::uint64_t addr;
    std::uint64_t size;
    std::uint32_t rkey;
    std::uint8_t usage;
};
static_assert(sizeof(mr_descriptor) == 21);
static_assert(ALL_USAGES <= UINT8_MAX);

} // namespace

int rpma_mr_reg(rpma_peer *peer, void *ptr, size_t size, int usage, rpma_mr_local **mr_ptr) {
    if (peer == nullptr || ptr == nullptr || size == 0 || mr_ptr == nullptr || usage == 0 ||
        (usage & ~ALL_USAGES) != 0)
        return RPMA_E_INVAL;
    std::unique_ptr<rpma_mr_local> mr(new (std::nothrow) rpma_mr_local);
    if (mr == nullptr)
        return RPMA_E_NOMEM;
    if (const int ret = peer->register_memory(ptr, size, usage, mr->mr))
        return ret;
    mr->usage = usage;
    mr->sync = share(peer->sync.get());
    if (mr->sync != nullptr)
        mr->sync->add(*mr);
    *mr_ptr = mr.release();
    return 0;
}

int rpma_mr_dereg(rpma_mr_local **mr_ptr) {
    if (mr_ptr == nullptr)
        return RPMA_E_INVAL;
    const std::unique_ptr<rpma_mr_local> mr(*mr_ptr);
    *mr_ptr = nullptr;
    if (mr == nullptr)
        return 0;
    if (mr->sync != nullptr)
        mr->sync->remove(*mr);
    return destroy_verbs(mr->mr, ibv_dereg_mr, "ibv_dereg_mr");
}

int rpma_mr_get_descriptor(const rpma_mr_local *mr, void *desc) {
    if (mr == nullptr || desc == nullptr)
        return RPMA_E_INVAL;
    const mr_descriptor value = {
        .addr = htole64(reinterpret_cast<std::uintptr_t>(mr->mr->addr)),
        .size = htole64(mr->mr->length),
        .rkey = htole32(mr->mr->rkey),
        .usage = static_cast<std::uint8_t>(mr->usage),
    };
    std::memcpy(desc, &value, sizeof value);
    return 0;
}

int rpma_mr_get_descriptor_size(const rpma_mr_local *mr, size_t *desc_size) {
    if (mr == nullptr || desc_size == nullptr)
        return RPMA_E_INVAL;
    *desc_size = sizeof(mr_descriptor);
    return 0;
}

int rpma_mr_get_ptr(const rpma_mr_local *mr, void **ptr) {
    if (mr == nullptr || ptr == nullptr)
        return RPMA_E_INVAL;
    *ptr = mr->mr->addr;
    return 0;
}

int rpma_mr_get_size(const rpma_mr_local *mr, size_t *size) {
    if (mr == nullptr || size == nullptr)
        return RPMA_E_INVAL;
    *size = mr->mr->length;
    return 0;
}

int rpma_mr_advise(rpma_mr_local *mr, size_t offset, size_t len, int advice, uint32_t flags) {
    if (mr == nullptr || offset > mr->mr->length || len > mr->mr->length - offset ||
        len > UINT32_MAX)
        return RPMA_E_INVAL;
    ibv_sge sge = {
        .addr = reinterpret_cast<std::uintptr_t>(mr->mr->addr) + offset,
        .length = static_cast<std::uint32_t>(len),
        .lkey = mr->mr->lkey,
    };
    const int error =
        ibv_advise_mr(mr->mr->pd, static_cast<ibv_advise_mr_advice>(advice), flags, &sge, 1);
    if (error == 0)
        return 0;
    RPMA_LOG_ERRNO(error, "ibv_advise_mr of %zu bytes from offset %zu, advice %d, flags 0x%x", len,
                   offset, advice, flags);
    switch (std::abs(error)) {
    case EOPNOTSUPP:
        return RPMA_E_NOSUPP;
    case EFAULT:
    case EINVAL:
        return RPMA_E_INVAL;
    default:
        return RPMA_E_PROVIDER;
    }
}

int rpma_mr_remote_from_descriptor(const void *desc, size_t desc_size, rpma_mr_remote **mr_ptr) {
    if (desc == nullptr || mr_ptr == nullptr)
        return RPMA_E_INVAL;
    mr_descriptor value;
    if (desc_size < sizeof value) {
        RPMA_LOG(RPMA_LOG_LEVEL_ERROR, "a descriptor of memory has %zu bytes, not %zu", desc_size,
                 sizeof value);
        return RPMA_E_INVAL;
    }
    std::memcpy(&value, desc, sizeof value);
    if (value.usage == 0) {
        RPMA_LOG(RPMA_LOG_LEVEL_ERROR, "a descriptor of memory has no usage");
        return RPMA_E_INVAL;
    }
    const std::uint64_t addr = le64toh(value.addr), size = le64toh(value.size);
    if (size == 0 || addr + (size - 1) < addr) {
        RPMA_LOG(RPMA_LOG_LEVEL_ERROR,
                 "a descriptor of memory has an impossible range: address 0x%llx, %llu bytes",
                 static_cast<unsigned long long>(addr), static_cast<unsigned long long>(size));
        return RPMA_E_NOSUPP;
    }
    auto *const mr = new (std::nothrow) rpma_mr_remote{
        .addr = addr, .size = size, .rkey = le32toh(value.rkey), .usage = value.usage};
    if (mr == nullptr)
        return RPMA_E_NOMEM;
    RPMA_LOG(RPMA_LOG_LEVEL_DEBUG,
             "remote memory: address 0x%llx, %llu bytes, rkey 0x%x, usage 0x%x",
             static_cast<unsigned long long>(addr), static_cast<unsigned long long>(size), mr->rkey,
             static_cast<unsigned>(mr->usage));
    *mr_ptr = mr;
    return 0;
}

int rpma_mr_remote_get_size(const rpma_mr_remote *mr, size_t *size) {
    if (mr == nullptr || size == nullptr)
        return RPMA_E_INVAL;
    *size = mr->size;
    return 0;
}

int rpma_mr_remote_get_flush_type(const rpma_mr_remote *mr, int *flush_type) {
    if (mr == nullptr || flush_type == nullptr)
        return RPMA_E_INVAL;
    *flush_type =
        mr->usage & (RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY);
    return 0;
}

int rpma_mr_remote_delete(rpma_mr_remote **mr_ptr) {
    if (mr_ptr == nullptr)
        return RPMA_E_INVAL;
    delete *mr_ptr;
    *mr_ptr = nullptr;
    return 0;
}
