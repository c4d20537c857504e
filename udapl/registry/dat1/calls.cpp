// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Calls that have other arguments in 2.0.

#include "../forward.hpp"

using namespace coherdma::registry;

DAT_RETURN dat_cr_reject(DAT_CR_HANDLE cr_handle) {
    return forward_destroy<&DAT_PROVIDER::cr_reject_func, DAT_INVALID_HANDLE_CR>(cr_handle);
}

DAT_RETURN dat_lmr_create(DAT_IA_HANDLE ia_handle, DAT_MEM_TYPE mem_type,
                          DAT_REGION_DESCRIPTION region_description, DAT_VLEN length,
                          DAT_PZ_HANDLE pz_handle, DAT_MEM_PRIV_FLAGS privileges,
                          DAT_LMR_HANDLE *lmr_handle, DAT_LMR_CONTEXT *lmr_context,
                          DAT_RMR_CONTEXT *rmr_context, DAT_VLEN *registered_length,
                          DAT_VADDR *registered_address) {
    return forward_ia<&DAT_PROVIDER::lmr_create_func>(
        ia_handle, mem_type, region_description, length, pz_handle, privileges, lmr_handle,
        lmr_context, rmr_context, registered_length, registered_address);
}

DAT_RETURN dat_rmr_bind(DAT_RMR_HANDLE rmr_handle, const DAT_LMR_TRIPLET *lmr_triplet,
                        DAT_MEM_PRIV_FLAGS mem_priv, DAT_EP_HANDLE ep_handle,
                        DAT_RMR_COOKIE user_cookie, DAT_COMPLETION_FLAGS completion_flags,
                        DAT_RMR_CONTEXT *context) {
    return forward<&DAT_PROVIDER::rmr_bind_func, DAT_INVALID_HANDLE_RMR>(
        rmr_handle, lmr_triplet, mem_priv, ep_handle, user_cookie, completion_flags, context);
}
