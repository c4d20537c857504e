// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// PZs, LMRs and RMRs.

#include "../forward.hpp"

using namespace coherdma::registry;

DAT_RETURN dat_pz_create(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE *pz_handle) {
    return forward_ia<&DAT_PROVIDER::pz_create_func>(ia_handle, pz_handle);
}

DAT_RETURN dat_pz_query(DAT_PZ_HANDLE pz_handle, DAT_PZ_PARAM_MASK pz_param_mask,
                        DAT_PZ_PARAM *pz_param) {
    return forward<&DAT_PROVIDER::pz_query_func, DAT_INVALID_HANDLE_PZ>(pz_handle, pz_param_mask,
                                                                        pz_param);
}

DAT_RETURN dat_pz_free(DAT_PZ_HANDLE pz_handle) {
    return forward_destroy<&DAT_PROVIDER::pz_free_func, DAT_INVALID_HANDLE_PZ>(pz_handle);
}

DAT_RETURN dat_lmr_query(DAT_LMR_HANDLE lmr_handle, DAT_LMR_PARAM_MASK lmr_param_mask,
                         DAT_LMR_PARAM *lmr_param) {
    return forward<&DAT_PROVIDER::lmr_query_func, DAT_INVALID_HANDLE_LMR>(
        lmr_handle, lmr_param_mask, lmr_param);
}

DAT_RETURN dat_lmr_free(DAT_LMR_HANDLE lmr_handle) {
    return forward_destroy<&DAT_PROVIDER::lmr_free_func, DAT_INVALID_HANDLE_LMR>(lmr_handle);
}

DAT_RETURN dat_lmr_sync_rdma_read(DAT_IA_HANDLE ia_handle, const DAT_LMR_TRIPLET *local_segments,
                                  DAT_VLEN num_segments) {
    return forward_ia<&DAT_PROVIDER::lmr_sync_rdma_read_func>(ia_handle, local_segments,
                                                              num_segments);
}

DAT_RETURN dat_lmr_sync_rdma_write(DAT_IA_HANDLE ia_handle, const DAT_LMR_TRIPLET *local_segments,
                                   DAT_VLEN num_segments) {
    return forward_ia<&DAT_PROVIDER::lmr_sync_rdma_write_func>(ia_handle, local_segments,
                                                               num_segments);
}

DAT_RETURN dat_rmr_create(DAT_PZ_HANDLE pz_handle, DAT_RMR_HANDLE *rmr_handle) {
    return forward<&DAT_PROVIDER::rmr_create_func, DAT_INVALID_HANDLE_PZ>(pz_handle, rmr_handle);
}

DAT_RETURN dat_rmr_query(DAT_RMR_HANDLE rmr_handle, DAT_RMR_PARAM_MASK rmr_param_mask,
                         DAT_RMR_PARAM *rmr_param) {
    return forward<&DAT_PROVIDER::rmr_query_func, DAT_INVALID_HANDLE_RMR>(
        rmr_handle, rmr_param_mask, rmr_param);
}

DAT_RETURN dat_rmr_free(DAT_RMR_HANDLE rmr_handle) {
    return forward_destroy<&DAT_PROVIDER::rmr_free_func, DAT_INVALID_HANDLE_RMR>(rmr_handle);
}
