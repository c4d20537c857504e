// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Calls that are new in 2.0 or have other arguments in 1.2.

#include "../forward.hpp"

using namespace coherdma::registry;

DAT_RETURN dat_csp_create(DAT_IA_HANDLE ia_handle, DAT_COMM *communicator,
                          DAT_IA_ADDRESS_PTR address, DAT_EVD_HANDLE evd_handle,
                          DAT_CSP_HANDLE *csp_handle) {
    return forward_ia<&DAT_PROVIDER::csp_create_func>(ia_handle, communicator, address, evd_handle,
                                                      csp_handle);
}

DAT_RETURN dat_csp_query(DAT_CSP_HANDLE csp_handle, DAT_CSP_PARAM_MASK csp_param_mask,
                         DAT_CSP_PARAM *csp_param) {
    return forward<&DAT_PROVIDER::csp_query_func, DAT_INVALID_HANDLE_CSP>(
        csp_handle, csp_param_mask, csp_param);
}

DAT_RETURN dat_csp_free(DAT_CSP_HANDLE csp_handle) {
    return forward_destroy<&DAT_PROVIDER::csp_free_func, DAT_INVALID_HANDLE_CSP>(csp_handle);
}

DAT_RETURN dat_cr_reject(DAT_CR_HANDLE cr_handle, DAT_COUNT private_data_size,
                         const DAT_PVOID private_data) {
    return forward_destroy<&DAT_PROVIDER::cr_reject_func, DAT_INVALID_HANDLE_CR>(
        cr_handle, private_data_size, private_data);
}

DAT_RETURN dat_ep_common_connect(DAT_EP_HANDLE ep_handle, DAT_IA_ADDRESS_PTR remote_ia_address,
                                 DAT_TIMEOUT timeout, DAT_COUNT private_data_size,
                                 const DAT_PVOID private_data) {
    return forward<&DAT_PROVIDER::ep_common_connect_func, DAT_INVALID_HANDLE_EP>(
        ep_handle, remote_ia_address, timeout, private_data_size, private_data);
}

DAT_RETURN dat_ep_post_send_with_invalidate(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments,
                                            DAT_LMR_TRIPLET *local_iov, DAT_DTO_COOKIE user_cookie,
                                            DAT_COMPLETION_FLAGS completion_flags,
                                            DAT_BOOLEAN invalidate_flag,
                                            DAT_RMR_CONTEXT rmr_to_invalidate) {
    return forward<&DAT_PROVIDER::ep_post_send_with_invalidate_func, DAT_INVALID_HANDLE_EP>(
        ep_handle, num_segments, local_iov, user_cookie, completion_flags, invalidate_flag,
        rmr_to_invalidate);
}

DAT_RETURN dat_ep_post_rdma_read_to_rmr(DAT_EP_HANDLE ep_handle, const DAT_RMR_TRIPLET *local_iov,
                                        DAT_DTO_COOKIE user_cookie,
                                        const DAT_RMR_TRIPLET *remote_iov,
                                        DAT_COMPLETION_FLAGS completion_flags) {
    return forward<&DAT_PROVIDER::ep_post_rdma_read_to_rmr_func, DAT_INVALID_HANDLE_EP>(
        ep_handle, local_iov, user_cookie, remote_iov, completion_flags);
}

DAT_RETURN dat_cno_fd_create(DAT_IA_HANDLE ia_handle, DAT_FD *file_descriptor,
                             DAT_CNO_HANDLE *cno_handle) {
    return forward_ia<&DAT_PROVIDER::cno_fd_create_func>(ia_handle, file_descriptor, cno_handle);
}

DAT_RETURN dat_cno_trigger(DAT_CNO_HANDLE cno_handle, DAT_EVD_HANDLE *evd_handle) {
    return forward<&DAT_PROVIDER::cno_trigger_func, DAT_INVALID_HANDLE_CNO>(cno_handle, evd_handle);
}

DAT_RETURN dat_lmr_create(DAT_IA_HANDLE ia_handle, DAT_MEM_TYPE mem_type,
                          DAT_REGION_DESCRIPTION region_description, DAT_VLEN length,
                          DAT_PZ_HANDLE pz_handle, DAT_MEM_PRIV_FLAGS privileges,
                          DAT_VA_TYPE va_type, DAT_LMR_HANDLE *lmr_handle,
                          DAT_LMR_CONTEXT *lmr_context, DAT_RMR_CONTEXT *rmr_context,
                          DAT_VLEN *registered_length, DAT_VADDR *registered_address) {
    return forward_ia<&DAT_PROVIDER::lmr_create_func>(
        ia_handle, mem_type, region_description, length, pz_handle, privileges, va_type, lmr_handle,
        lmr_context, rmr_context, registered_length, registered_address);
}

DAT_RETURN dat_rmr_create_for_ep(DAT_PZ_HANDLE pz_handle, DAT_RMR_HANDLE *rmr_handle) {
    return forward<&DAT_PROVIDER::rmr_create_for_ep_func, DAT_INVALID_HANDLE_PZ>(pz_handle,
                                                                                 rmr_handle);
}

DAT_RETURN dat_rmr_bind(DAT_RMR_HANDLE rmr_handle, DAT_LMR_HANDLE lmr_handle,
                        const DAT_LMR_TRIPLET *lmr_triplet, DAT_MEM_PRIV_FLAGS mem_priv,
                        DAT_VA_TYPE va_type, DAT_EP_HANDLE ep_handle, DAT_RMR_COOKIE user_cookie,
                        DAT_COMPLETION_FLAGS completion_flags, DAT_RMR_CONTEXT *context) {
    return forward<&DAT_PROVIDER::rmr_bind_func, DAT_INVALID_HANDLE_RMR>(
        rmr_handle, lmr_handle, lmr_triplet, mem_priv, va_type, ep_handle, user_cookie,
        completion_flags, context);
}
