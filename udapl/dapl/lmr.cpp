// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "lmr.hpp"

#include "api.hpp"
#include "device.hpp"
#include "ia.hpp"
#include "named.hpp"
#include "pz.hpp"

#include <cerrno>
#include <cstdint>
#include <utility>

namespace coherdma::dapl {

namespace {

constexpr DAT_UINT32 atomics = 0x40; ///< DAT_IB_MEM_PRIV_REMOTE_ATOMIC
constexpr DAT_UINT32 remote =
    DAT_MEM_PRIV_REMOTE_READ_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG | atomics;

// Hardware writes for a peer only where it may write for us.
int access_of(DAT_UINT32 privileges) noexcept {
    int access = 0;
    if ((privileges & DAT_MEM_PRIV_LOCAL_WRITE_FLAG) != 0)
        access |= IBV_ACCESS_LOCAL_WRITE;
    if ((privileges & DAT_MEM_PRIV_REMOTE_READ_FLAG) != 0)
        access |= IBV_ACCESS_REMOTE_READ;
    if ((privileges & DAT_MEM_PRIV_REMOTE_WRITE_FLAG) != 0)
        access |= IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE;
    if ((privileges & atomics) != 0)
        access |= IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_LOCAL_WRITE;
    return access;
}

struct wish {
    ia &on;
    DAT_MEM_TYPE kind;
    DAT_REGION_DESCRIPTION description;
    DAT_VLEN length;
    DAT_MEM_PRIV_FLAGS privileges;
    DAT_VA_TYPE va;
    char *memory = nullptr;
    std::unique_ptr<shared_meaning> meaning = nullptr;
};

/// Where the memory is, by its type.
DAT_RETURN find_memory(wish &wanted) noexcept {
    switch (DAT_UINT32{wanted.kind}) {
    case DAT_MEM_TYPE_VIRTUAL:
    case mem_type_so_virtual:
        wanted.memory = static_cast<char *>(wanted.description.for_va);
        return DAT_SUCCESS;
    case DAT_MEM_TYPE_SHARED_VIRTUAL:
        wanted.memory = static_cast<char *>(wanted.description.for_shared_memory.virtual_address);
        return wanted.description.for_shared_memory.shared_memory_id != nullptr ? DAT_SUCCESS
                                                                                : wrong_argument(3);
    case DAT_MEM_TYPE_LMR: {
        const holding held(wanted.on.guard);
        const lmr *const other = as<lmr>(wanted.description.for_lmr_handle);
        if (other == nullptr || other->home != &wanted.on)
            return wrong_handle(DAT_INVALID_HANDLE_LMR);
        wanted.memory = other->memory;
        wanted.length = other->size.load(std::memory_order_relaxed); // the caller's is ignored
        return DAT_SUCCESS;
    }
    default:
        return wrong_argument(2);
    }
}

/// All who register it under this cookie mean the same by it.
DAT_RETURN find_meaning(wish &wanted) noexcept {
    if (wanted.kind != DAT_MEM_TYPE_SHARED_VIRTUAL)
        return DAT_SUCCESS;
    shared_range range;
    if (!find_shared(wanted.memory, wanted.length, range))
        return wrong_state(DAT_NO_SUBTYPE);
    DAT_RETURN result;
    wanted.meaning =
        shared_meaning::hold(*wanted.description.for_shared_memory.shared_memory_id, range, result);
    return result;
}

DAT_RETURN failed_registration(int error) noexcept {
    switch (error) {
    case ENOMEM: // The limit of locked memory, most of the time.
        return exhausted(DAT_RESOURCE_MEMORY);
    case ENOSPC:
        return exhausted(DAT_RESOURCE_MEMORY_REGION);
    case EFAULT:
        return wrong_argument(3);
    case EOPNOTSUPP:
        return failed(DAT_MODEL_NOT_SUPPORTED);
    case EINVAL:
        return wrong_argument(6);
    default:
        return failed_with(error, DAT_RESOURCE_MEMORY_REGION);
    }
}

DAT_RETURN check(const wish &wanted) noexcept {
    const auto privileges = static_cast<DAT_UINT32>(wanted.privileges);
    if (wanted.length == 0)
        return failed(DAT_LENGTH_ERROR);
    if (wanted.memory == nullptr)
        return wrong_argument(3);
    if (wanted.length > wanted.on.on->limits.max_mr_size || wanted.length > PTRDIFF_MAX ||
        reinterpret_cast<std::uintptr_t>(wanted.memory) + wanted.length <
            reinterpret_cast<std::uintptr_t>(wanted.memory))
        return wrong_argument(4);
    if ((privileges & ~(DAT_UINT32{DAT_MEM_PRIV_ALL_FLAG} | atomics)) != 0)
        return wrong_argument(6);
    if (wanted.va != DAT_VA_TYPE_VA && wanted.va != DAT_VA_TYPE_ZB)
        return wrong_argument(7);
    if (wanted.va == DAT_VA_TYPE_ZB && wanted.on.on->is_siw())
        return failed(DAT_MODEL_NOT_SUPPORTED);
    // siw would take it, and answer no atomic.
    if ((privileges & atomics) != 0 && wanted.on.on->limits.atomic_cap == IBV_ATOMIC_NONE)
        return failed(DAT_MODEL_NOT_SUPPORTED);
    return DAT_SUCCESS;
}

/// What nobody has to have, but it is better: windows may be bound to any region, though the kernel
/// has none over memory that it may not write; and memory of a program that can do with it may be
/// written in any order.
int wishes_of(const wish &wanted) noexcept {
    return (wanted.on.on->windows ? int{IBV_ACCESS_MW_BIND} : 0) |
           (wanted.on.ro_aware && wanted.kind == DAT_MEM_TYPE_VIRTUAL
                ? int{IBV_ACCESS_RELAXED_ORDERING}
                : 0);
}

ibv_mr *registered(const wish &wanted, pz &zone, std::uint64_t begin) noexcept {
    const int access = access_of(static_cast<DAT_UINT32>(wanted.privileges));
    ibv_mr *region = nullptr;
    for (int more = wishes_of(wanted);; more = 0) {
        region = ibv_reg_mr_iova(zone.domain.get(), wanted.memory, wanted.length, begin,
                                 static_cast<unsigned>(access | more));
        if (region != nullptr || more == 0 ||
            (errno != EFAULT && errno != EINVAL && errno != EOPNOTSUPP))
            return region;
    }
}

DAT_RETURN make(wish &wanted, pz &zone, lmr *&made) noexcept {
    ia &on = wanted.on;
    made = prepare<lmr>(on);
    if (made == nullptr)
        return exhausted(DAT_RESOURCE_MEMORY);
    const auto privileges = static_cast<DAT_UINT32>(wanted.privileges);
    const std::uint64_t begin =
        wanted.va == DAT_VA_TYPE_ZB ? 0 : reinterpret_cast<std::uintptr_t>(wanted.memory);
    made->region.reset(registered(wanted, zone, begin));
    if (!made->region) {
        const int error = errno;
        discard(made);
        return failed_registration(error);
    }
    made->zone = &zone;
    made->kind = wanted.kind;
    made->description = wanted.description;
    made->privileges = wanted.privileges;
    made->va = wanted.va;
    made->meaning = std::move(wanted.meaning);
    made->memory = wanted.memory;
    made->rkey = (privileges & remote) != 0 ? made->region->rkey : 0;
    made->size.store(wanted.length, std::memory_order_relaxed);
    made->begin.store(begin, std::memory_order_relaxed);
    made->lkey.store(made->region->lkey, std::memory_order_release);
    const holding held(on.guard);
    if (on.by_lkey.add(made->region->lkey, made)) {
        if (on.by_rkey.add(made->region->rkey, made))
            return DAT_SUCCESS;
        on.by_lkey.remove(made->region->lkey, made);
    }
    discard(made);
    return exhausted(DAT_RESOURCE_MEMORY);
}

} // namespace

DAT_RETURN lmr_create(DAT_IA_HANDLE ia_handle, DAT_MEM_TYPE kind, DAT_REGION_DESCRIPTION region,
                      DAT_VLEN length, DAT_PZ_HANDLE pz_handle, DAT_MEM_PRIV_FLAGS privileges,
                      DAT_VA_TYPE va, DAT_LMR_HANDLE *lmr_handle, DAT_LMR_CONTEXT *lmr_context,
                      DAT_RMR_CONTEXT *rmr_context, DAT_VLEN *registered_length,
                      DAT_VADDR *registered_address) noexcept {
    ia *const on = called_with<ia>(ia_handle);
    if (on == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_IA);
    wish wanted = {*on, kind, region, length, privileges, va};
    DAT_RETURN result = find_memory(wanted);
    if (result != DAT_SUCCESS)
        return result;
    pz *const zone = on->borrow<pz>(pz_handle);
    if (zone == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_PZ);
    lmr *made = nullptr;
    result = check(wanted);
    if (result == DAT_SUCCESS && lmr_handle == nullptr)
        result = wrong_argument(7); // as OFED says
    if (result == DAT_SUCCESS)
        result = find_meaning(wanted);
    if (result == DAT_SUCCESS)
        result = make(wanted, *zone, made);
    if (result != DAT_SUCCESS) {
        on->give_back(zone);
        return result;
    }
    on->adopt(made);
    *lmr_handle = made;
    if (lmr_context != nullptr)
        *lmr_context = made->region->lkey;
    if (rmr_context != nullptr)
        *rmr_context = made->rkey;
    if (registered_length != nullptr)
        *registered_length = wanted.length;
    if (registered_address != nullptr)
        *registered_address = made->begin.load(std::memory_order_relaxed);
    return DAT_SUCCESS;
}

DAT_RETURN lmr_query(DAT_LMR_HANDLE lmr_handle, DAT_LMR_PARAM_MASK mask,
                     DAT_LMR_PARAM *param) noexcept {
    const lmr *const one = called_with<lmr>(lmr_handle);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_LMR);
    if ((mask & ~DAT_LMR_FIELD_ALL) != 0)
        return wrong_argument(2);
    if (param == nullptr)
        return wrong_argument(3);
    *param = {};
    param->ia_handle = one->home->handle();
    param->mem_type = one->kind;
    param->region_desc = one->description;
    param->length = one->size.load(std::memory_order_relaxed);
    param->pz_handle = one->zone;
    param->mem_priv = one->privileges;
    param->va_type = one->va;
    param->lmr_context = one->lkey.load(std::memory_order_relaxed);
    param->rmr_context = one->rkey;
    param->registered_size = param->length;
    param->registered_address = one->begin.load(std::memory_order_relaxed);
    return DAT_SUCCESS;
}

DAT_RETURN lmr_free(DAT_LMR_HANDLE lmr_handle) noexcept {
    lmr *const one = called_with<lmr>(lmr_handle);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_LMR);
    bool in_use;
    if (!one->home->disown(one, in_use))
        return in_use ? wrong_state(DAT_INVALID_STATE_LMR_IN_USE)
                      : wrong_handle(DAT_INVALID_HANDLE_LMR);
    end_lmr(one);
    return DAT_SUCCESS;
}

void end_lmr(lmr *one) noexcept {
    ia &on = *one->home;
    {
        const holding held(on.guard);
        on.by_lkey.remove(one->region->lkey, one);
        on.by_rkey.remove(one->region->rkey, one);
        --one->zone->users;
    }
    one->lkey.store(0, std::memory_order_relaxed);
    discard(one);
}

} // namespace coherdma::dapl
