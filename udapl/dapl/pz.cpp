// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "pz.hpp"

#include "api.hpp"
#include "ia.hpp"

#include <cerrno>

namespace coherdma::dapl {

DAT_RETURN pz_create(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE *pz_handle) noexcept {
    ia *const on = called_with<ia>(ia_handle);
    if (on == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_IA);
    if (pz_handle == nullptr)
        return wrong_argument(2);
    pz *const made = prepare<pz>(*on);
    if (made == nullptr)
        return exhausted(DAT_RESOURCE_MEMORY);
    made->domain.reset(ibv_alloc_pd(on->verbs()));
    if (!made->domain) {
        const int error = errno;
        discard(made);
        return failed_with(error, DAT_RESOURCE_PROTECTION_DOMAIN);
    }
    on->adopt(made);
    *pz_handle = made;
    return DAT_SUCCESS;
}

DAT_RETURN pz_query(DAT_PZ_HANDLE pz_handle, DAT_PZ_PARAM_MASK mask, DAT_PZ_PARAM *param) noexcept {
    const pz *const one = called_with<pz>(pz_handle);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_PZ);
    if ((mask & ~DAT_PZ_FIELD_ALL) != 0)
        return wrong_argument(2);
    if (param == nullptr)
        return wrong_argument(3);
    param->ia_handle = one->home->handle();
    return DAT_SUCCESS;
}

DAT_RETURN pz_free(DAT_PZ_HANDLE pz_handle) noexcept {
    pz *const one = called_with<pz>(pz_handle);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_PZ);
    return one->home->free_unused(one, DAT_INVALID_STATE_PZ_IN_USE, DAT_INVALID_HANDLE_PZ);
}

} // namespace coherdma::dapl
