// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "lmr.hpp"

#include "dapl/api.hpp"
#include "dapl/ia/device.hpp"
#include "dapl/ia/ia.hpp"
#include "dapl/ia/named_attr.hpp"
#include "pz.hpp"
#include "writeback.hpp"

#include <cerrno>
#include <cstdint>
#include <utility>

namespace coherdma::dapl {

namespace {

constexpr DAT_UINT32 remote_atomic = 0x40; // DAT_IB_MEM_PRIV_REMOTE_ATOMIC
constexpr DAT_UINT32 remote_privileges =
    DAT_MEM_PRIV_REMOTE_READ_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG | remote_atomic;

/// The IBV_ACCESS_... flags. Verbs require local write with remote write and remote atomic.
int verbs_access(DAT_UINT32 privileges) noexcept {
    int access = 0;
    if ((privileges & DAT_MEM_PRIV_LOCAL_WRITE_FLAG) != 0)
        access |= IBV_ACCESS_LOCAL_WRITE;
    if ((privileges & DAT_MEM_PRIV_REMOTE_READ_FLAG) != 0)
        access |= IBV_ACCESS_REMOTE_READ;
    if ((privileges & DAT_MEM_PRIV_REMOTE_WRITE_FLAG) != 0)
        access |= IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE;
    if ((privileges & remote_atomic) != 0)
        access |= IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_LOCAL_WRITE;
    return access;
}

/// The arguments of dat_lmr_create, and the memory that they stand for.
struct lmr_params {
    dapl_ia &ia;
    DAT_MEM_TYPE mem_type;
    DAT_REGION_DESCRIPTION region_desc;
    DAT_VLEN length;
    DAT_MEM_PRIV_FLAGS privileges;
    DAT_VA_TYPE va_type;
    char *memory = nullptr;
    std::unique_ptr<shm_cookie_lock> shm_lock = nullptr;
};

/// Sets params.memory, and for DAT_MEM_TYPE_LMR params.length.
DAT_RETURN find_memory(lmr_params &params) noexcept {
    switch (DAT_UINT32{params.mem_type}) {
    case DAT_MEM_TYPE_VIRTUAL:
    case mem_type_so_virtual:
        params.memory = static_cast<char *>(params.region_desc.for_va);
        return DAT_SUCCESS;
    case DAT_MEM_TYPE_SHARED_VIRTUAL:
        params.memory = static_cast<char *>(params.region_desc.for_shared_memory.virtual_address);
        return params.region_desc.for_shared_memory.shared_memory_id != nullptr
                   ? DAT_SUCCESS
                   : invalid_parameter(3);
    case DAT_MEM_TYPE_LMR: {
        const auto lmr = lookup<dapl_lmr>(params.region_desc.for_lmr_handle);
        if (!lmr || lmr->ia != &params.ia)
            return invalid_handle(DAT_INVALID_HANDLE_LMR);
        params.memory = lmr->memory;
        params.length = lmr->length; // the argument is ignored
        return DAT_SUCCESS;
    }
    default:
        return invalid_parameter(2);
    }
}

/// For shared memory: takes the cookie's lock, so that every LMR of the cookie has the same memory.
DAT_RETURN acquire_shm_lock(lmr_params &params) noexcept {
    if (params.mem_type != DAT_MEM_TYPE_SHARED_VIRTUAL)
        return DAT_SUCCESS;
    shared_range range;
    if (!find_shared_range(params.memory, params.length, range))
        return invalid_state(DAT_NO_SUBTYPE);
    DAT_RETURN result;
    params.shm_lock = shm_cookie_lock::acquire(
        *params.region_desc.for_shared_memory.shared_memory_id, range, result);
    return result;
}

/// The DAT error of an errno of ibv_reg_mr_iova. Arguments are those of dat_lmr_create.
DAT_RETURN reg_mr_error(int error) noexcept {
    switch (error) {
    case ENOMEM: // usually RLIMIT_MEMLOCK
        return no_resources(DAT_RESOURCE_MEMORY);
    case ENOSPC:
        return no_resources(DAT_RESOURCE_MEMORY_REGION);
    case EFAULT:
        return invalid_parameter(3);
    case EOPNOTSUPP:
        return dat_error(DAT_MODEL_NOT_SUPPORTED);
    case EINVAL:
        return invalid_parameter(6);
    default:
        return from_errno(error, DAT_RESOURCE_MEMORY_REGION);
    }
}

/// Checks the memory of dat_lmr_create, after find_memory.
DAT_RETURN check_range(const lmr_params &params) noexcept {
    if (params.length == 0) // first: OFED's dapltest expects it with a NULL address
        return dat_error(DAT_LENGTH_ERROR);
    if (params.memory == nullptr)
        return invalid_parameter(3);
    if (params.length > params.ia.dev->attr.max_mr_size || params.length > PTRDIFF_MAX ||
        reinterpret_cast<std::uintptr_t>(params.memory) + params.length <
            reinterpret_cast<std::uintptr_t>(params.memory))
        return invalid_parameter(4);
    return DAT_SUCCESS;
}

/// The arguments after the PZ.
DAT_RETURN check_access(const lmr_params &params, const DAT_LMR_HANDLE *lmr_handle) noexcept {
    const auto privileges = static_cast<DAT_UINT32>(params.privileges);
    if ((privileges & ~(DAT_UINT32{DAT_MEM_PRIV_ALL_FLAG} | remote_atomic)) != 0)
        return invalid_parameter(6);
    if (params.va_type != DAT_VA_TYPE_VA && params.va_type != DAT_VA_TYPE_ZB)
        return invalid_parameter(7);
    if (lmr_handle == nullptr)
        return invalid_parameter(7); // as in OFED
    if (params.va_type == DAT_VA_TYPE_ZB && params.ia.dev->is_siw())
        return dat_error(DAT_MODEL_NOT_SUPPORTED);
    // siw would register it, but has no atomic operations.
    if ((privileges & remote_atomic) != 0 && params.ia.dev->attr.atomic_cap == IBV_ATOMIC_NONE)
        return dat_error(DAT_MODEL_NOT_SUPPORTED);
    return DAT_SUCCESS;
}

/// Access flags that an MR gets if the kernel allows them. Memory windows can be bound to any LMR,
/// but the kernel refuses IBV_ACCESS_MW_BIND for read-only memory.
int optional_access(const lmr_params &params) noexcept {
    return (params.ia.dev->has_mw ? int{IBV_ACCESS_MW_BIND} : 0) |
           (params.ia.ro_aware && params.mem_type == DAT_MEM_TYPE_VIRTUAL
                ? int{IBV_ACCESS_RELAXED_ORDERING}
                : 0);
}

/// Registers with the optional access flags or, if the kernel refuses them, without. nullptr: see
/// errno.
ibv_mr *register_mr(const lmr_params &params, dapl_pz &pz, std::uint64_t iova) noexcept {
    const int access = verbs_access(static_cast<DAT_UINT32>(params.privileges));
    ibv_mr *mr = nullptr;
    for (int optional = optional_access(params);; optional = 0) {
        mr = ibv_reg_mr_iova(pz.pd.get(), params.memory, params.length, iova,
                             static_cast<unsigned>(access | optional));
        if (mr != nullptr || optional == 0 ||
            (errno != EFAULT && errno != EINVAL && errno != EOPNOTSUPP))
            return mr;
    }
}

/// Creates an LMR, which is not published. It gets the reference to pz on success.
DAT_RETURN create_lmr(lmr_params &params, dapl_pz &pz, dapl_lmr *&lmr) noexcept {
    dapl_ia &ia = params.ia;
    lmr = create_object<dapl_lmr>(ia);
    if (lmr == nullptr)
        return no_resources(DAT_RESOURCE_MEMORY);
    const auto privileges = static_cast<DAT_UINT32>(params.privileges);
    const std::uint64_t iova =
        params.va_type == DAT_VA_TYPE_ZB ? 0 : reinterpret_cast<std::uintptr_t>(params.memory);
    lmr->mr.reset(register_mr(params, pz, iova));
    if (!lmr->mr) {
        const int error = errno;
        destroy_object(lmr);
        return reg_mr_error(error);
    }
    lmr->lkey = lmr->mr->lkey;
    lmr->pz = &pz;
    lmr->mem_type = params.mem_type;
    lmr->region_desc = params.region_desc;
    lmr->privileges = params.privileges;
    lmr->va_type = params.va_type;
    lmr->shm_lock = std::move(params.shm_lock);
    lmr->memory = params.memory;
    lmr->rkey = (privileges & remote_privileges) != 0 ? lmr->mr->rkey : 0;
    lmr->length = params.length;
    lmr->address = iova;
    if (ia.lkey_index.add(lmr->lkey, lmr)) {
        if (ia.rkey_index.add(lmr->mr->rkey, lmr))
            return DAT_SUCCESS;
        ia.lkey_index.remove(lmr->lkey, lmr);
    }
    destroy_object(lmr);
    return no_resources(DAT_RESOURCE_MEMORY);
}

} // namespace

DAT_RETURN lmr_create(DAT_IA_HANDLE ia_handle, DAT_MEM_TYPE mem_type, DAT_REGION_DESCRIPTION region,
                      DAT_VLEN length, DAT_PZ_HANDLE pz_handle, DAT_MEM_PRIV_FLAGS privileges,
                      DAT_VA_TYPE va_type, DAT_LMR_HANDLE *lmr_handle, DAT_LMR_CONTEXT *lmr_context,
                      DAT_RMR_CONTEXT *rmr_context, DAT_VLEN *registered_length,
                      DAT_VADDR *registered_address) noexcept {
    const auto ia = handle_to<dapl_ia>(ia_handle);
    if (!ia)
        return invalid_handle(DAT_INVALID_HANDLE_IA);
    lmr_params params = {*ia, mem_type, region, length, privileges, va_type};
    DAT_RETURN result = find_memory(params);
    if (result == DAT_SUCCESS)
        result = check_range(params);
    if (result != DAT_SUCCESS)
        return result;
    dapl_pz *const pz = ia->find_and_add_ref<dapl_pz>(pz_handle);
    if (pz == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE_PZ);
    dapl_lmr *lmr = nullptr;
    result = check_access(params, lmr_handle);
    if (result == DAT_SUCCESS)
        result = acquire_shm_lock(params);
    if (result == DAT_SUCCESS)
        result = create_lmr(params, *pz, lmr);
    if (result != DAT_SUCCESS) {
        ia->drop_ref(pz);
        return result;
    }
    *lmr_handle = lmr;
    if (lmr_context != nullptr)
        *lmr_context = lmr->lkey;
    if (rmr_context != nullptr)
        *rmr_context = lmr->rkey;
    if (registered_length != nullptr)
        *registered_length = params.length;
    if (registered_address != nullptr)
        *registered_address = lmr->address;
    ia->insert(lmr);
    return DAT_SUCCESS;
}

DAT_RETURN lmr_query(DAT_LMR_HANDLE lmr_handle, DAT_LMR_PARAM_MASK mask,
                     DAT_LMR_PARAM *param) noexcept {
    return query_object<dapl_lmr>(lmr_handle, mask, DAT_LMR_FIELD_ALL, param,
                                  [param](const dapl_lmr &lmr) {
                                      param->mem_type = lmr.mem_type;
                                      param->region_desc = lmr.region_desc;
                                      param->length = lmr.length;
                                      param->pz_handle = lmr.pz;
                                      param->mem_priv = lmr.privileges;
                                      param->va_type = lmr.va_type;
                                      param->lmr_context = lmr.lkey;
                                      param->rmr_context = lmr.rkey;
                                      param->registered_size = param->length;
                                      param->registered_address = lmr.address;
                                  });
}

namespace {

/// For dat_lmr_free: deregisters the MR, if no RMR is bound to the LMR. The handle is still valid
/// then, since the device may refuse: an MW is still bound if the bind that replaces its binding is
/// not executed yet or was flushed.
DAT_RETURN deregister(dapl_lmr &lmr) noexcept {
    const std::lock_guard guard(lmr.lock);
    if (!lmr.mr) // by another thread
        return invalid_handle(DAT_INVALID_HANDLE_LMR);
    {
        const std::lock_guard objects_guard(objects_lock);
        if (lmr.refs != 0)
            return invalid_state(DAT_INVALID_STATE_LMR_IN_USE);
    }
    if (lmr.ia->needs_sync)
        writeback_pages(lmr);
    const std::uint32_t rkey = lmr.mr->rkey;
    const int error = ibv_dereg_mr(lmr.mr.get());
    if (error == EINVAL || error == EBUSY)
        return invalid_state(DAT_INVALID_STATE_LMR_IN_USE);
    static_cast<void>(lmr.mr.release());
    lmr.ia->lkey_index.remove(lmr.lkey, &lmr);
    lmr.ia->rkey_index.remove(rkey, &lmr);
    return DAT_SUCCESS;
}

} // namespace

DAT_RETURN lmr_free(DAT_LMR_HANDLE lmr_handle) noexcept {
    auto lmr = handle_to<dapl_lmr>(lmr_handle);
    if (!lmr)
        return invalid_handle(DAT_INVALID_HANDLE_LMR);
    if (const DAT_RETURN result = deregister(*lmr); result != DAT_SUCCESS)
        return result;
    return free_object(std::move(lmr), DAT_INVALID_STATE_LMR_IN_USE, destroy_lmr);
}

void destroy_lmr(dapl_lmr *lmr) noexcept {
    dapl_pz *const pz = lmr->pz;
    deregister(*lmr); // for dat_ia_close; dat_lmr_free has done it
    destroy_object(lmr);
    dapl_ia::drop_ref(pz);
}

} // namespace coherdma::dapl
