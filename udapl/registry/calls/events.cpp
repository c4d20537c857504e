// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// EVDs and CNOs.

#include "../forward.hpp"

using namespace coherdma::registry;

DAT_RETURN dat_evd_create(DAT_IA_HANDLE ia_handle, DAT_COUNT evd_min_qlen,
                          DAT_CNO_HANDLE cno_handle, DAT_EVD_FLAGS evd_flags,
                          DAT_EVD_HANDLE *evd_handle) {
    return forward_ia<&DAT_PROVIDER::evd_create_func>(ia_handle, evd_min_qlen, cno_handle,
                                                      evd_flags, evd_handle);
}

DAT_RETURN dat_evd_wait(DAT_EVD_HANDLE evd_handle, DAT_TIMEOUT timeout, DAT_COUNT threshold,
                        DAT_EVENT *event, DAT_COUNT *n_more_events) {
    return forward<&DAT_PROVIDER::evd_wait_func, DAT_INVALID_HANDLE_EVD_REQUEST>(
        evd_handle, timeout, threshold, event, n_more_events);
}

DAT_RETURN dat_evd_dequeue(DAT_EVD_HANDLE evd_handle, DAT_EVENT *event) {
    return forward<&DAT_PROVIDER::evd_dequeue_func, DAT_INVALID_HANDLE_EVD_REQUEST>(evd_handle,
                                                                                    event);
}

DAT_RETURN dat_evd_post_se(DAT_EVD_HANDLE evd_handle, const DAT_EVENT *event) {
    return forward<&DAT_PROVIDER::evd_post_se_func, DAT_INVALID_HANDLE_EVD_REQUEST>(evd_handle,
                                                                                    event);
}

DAT_RETURN dat_evd_modify_cno(DAT_EVD_HANDLE evd_handle, DAT_CNO_HANDLE cno_handle) {
    return forward<&DAT_PROVIDER::evd_modify_cno_func, DAT_INVALID_HANDLE_EVD_REQUEST>(evd_handle,
                                                                                       cno_handle);
}

DAT_RETURN dat_evd_enable(DAT_EVD_HANDLE evd_handle) {
    return forward<&DAT_PROVIDER::evd_enable_func, DAT_INVALID_HANDLE_EVD_REQUEST>(evd_handle);
}

DAT_RETURN dat_evd_disable(DAT_EVD_HANDLE evd_handle) {
    return forward<&DAT_PROVIDER::evd_disable_func, DAT_INVALID_HANDLE_EVD_REQUEST>(evd_handle);
}

DAT_RETURN dat_evd_set_unwaitable(DAT_EVD_HANDLE evd_handle) {
    return forward<&DAT_PROVIDER::evd_set_unwaitable_func, DAT_INVALID_HANDLE_EVD_REQUEST>(
        evd_handle);
}

DAT_RETURN dat_evd_clear_unwaitable(DAT_EVD_HANDLE evd_handle) {
    return forward<&DAT_PROVIDER::evd_clear_unwaitable_func, DAT_INVALID_HANDLE_EVD_REQUEST>(
        evd_handle);
}

DAT_RETURN dat_evd_resize(DAT_EVD_HANDLE evd_handle, DAT_COUNT evd_min_qlen) {
    return forward<&DAT_PROVIDER::evd_resize_func, DAT_INVALID_HANDLE_EVD_REQUEST>(evd_handle,
                                                                                   evd_min_qlen);
}

DAT_RETURN dat_evd_query(DAT_EVD_HANDLE evd_handle, DAT_EVD_PARAM_MASK evd_param_mask,
                         DAT_EVD_PARAM *evd_param) {
    return forward<&DAT_PROVIDER::evd_query_func, DAT_INVALID_HANDLE_EVD_REQUEST>(
        evd_handle, evd_param_mask, evd_param);
}

DAT_RETURN dat_evd_free(DAT_EVD_HANDLE evd_handle) {
    return forward_destroy<&DAT_PROVIDER::evd_free_func, DAT_INVALID_HANDLE_EVD_REQUEST>(
        evd_handle);
}

DAT_RETURN dat_cno_create(DAT_IA_HANDLE ia_handle, DAT_OS_WAIT_PROXY_AGENT agent,
                          DAT_CNO_HANDLE *cno_handle) {
    return forward_ia<&DAT_PROVIDER::cno_create_func>(ia_handle, agent, cno_handle);
}

DAT_RETURN dat_cno_wait(DAT_CNO_HANDLE cno_handle, DAT_TIMEOUT timeout,
                        DAT_EVD_HANDLE *evd_handle) {
    return forward<&DAT_PROVIDER::cno_wait_func, DAT_INVALID_HANDLE_CNO>(cno_handle, timeout,
                                                                         evd_handle);
}

DAT_RETURN dat_cno_modify_agent(DAT_CNO_HANDLE cno_handle, DAT_OS_WAIT_PROXY_AGENT agent) {
    return forward<&DAT_PROVIDER::cno_modify_agent_func, DAT_INVALID_HANDLE_CNO>(cno_handle, agent);
}

DAT_RETURN dat_cno_query(DAT_CNO_HANDLE cno_handle, DAT_CNO_PARAM_MASK cno_param_mask,
                         DAT_CNO_PARAM *cno_param) {
    return forward<&DAT_PROVIDER::cno_query_func, DAT_INVALID_HANDLE_CNO>(
        cno_handle, cno_param_mask, cno_param);
}

DAT_RETURN dat_cno_free(DAT_CNO_HANDLE cno_handle) {
    return forward_destroy<&DAT_PROVIDER::cno_free_func, DAT_INVALID_HANDLE_CNO>(cno_handle);
}
