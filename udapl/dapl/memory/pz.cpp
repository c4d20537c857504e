// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "pz.hpp"

#include "dapl/api.hpp"
#include "dapl/ia/device.hpp"
#include "dapl/ia/ia.hpp"

#include <cerrno>

namespace coherdma::dapl {

DAT_RETURN pz_create(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE *pz_handle) noexcept {
    const auto ia = handle_to<dapl_ia>(ia_handle);
    if (!ia)
        return invalid_handle(DAT_INVALID_HANDLE_IA);
    if (pz_handle == nullptr)
        return invalid_parameter(2);
    dapl_pz *const pz = create_object<dapl_pz>(*ia);
    if (pz == nullptr)
        return no_resources(DAT_RESOURCE_MEMORY);
    pz->pd = shared_handle<ibv_dealloc_pd>(ibv_alloc_pd(ia->ctx()), ia->dev->context);
    if (!pz->pd) {
        const int error = errno;
        destroy_object(pz);
        return from_errno(error, DAT_RESOURCE_PROTECTION_DOMAIN);
    }
    ia->insert(pz);
    *pz_handle = pz;
    return DAT_SUCCESS;
}

DAT_RETURN pz_query(DAT_PZ_HANDLE pz_handle, DAT_PZ_PARAM_MASK mask, DAT_PZ_PARAM *param) noexcept {
    return query_object<dapl_pz>(pz_handle, mask, DAT_PZ_FIELD_ALL, param, [](dapl_pz &) {});
}

DAT_RETURN pz_free(DAT_PZ_HANDLE pz_handle) noexcept {
    return free_object(handle_to<dapl_pz>(pz_handle), DAT_INVALID_STATE_PZ_IN_USE,
                       destroy_object<dapl_pz>);
}

} // namespace coherdma::dapl
