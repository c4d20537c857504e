// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The functions of DAT 2.0, for the tables of dispatch/. An IA handle is a pointer here; the
// registry converts the consumer's integer.
#pragma once

#include "dapl/core/result.hpp"

namespace coherdma::dapl {

DAT_RETURN ia_query(DAT_IA_HANDLE ia_handle, DAT_EVD_HANDLE *async_evd_handle,
                    DAT_IA_ATTR_MASK ia_mask, DAT_IA_ATTR *ia_attr,
                    DAT_PROVIDER_ATTR_MASK provider_mask,
                    DAT_PROVIDER_ATTR *provider_attr) noexcept;
DAT_RETURN ia_ha_related(DAT_IA_HANDLE ia_handle, const DAT_NAME_PTR name,
                         DAT_BOOLEAN *related) noexcept;
/// The properties of an IA that depend on the function by which the registry opens it.
struct open_options {
    DAT_UINT32 version; ///< the registry's DAT version: 1 or 2
    DAT_BOOLEAN thread_safe;
    bool ro_aware = false; ///< the consumer accepts relaxed ordering
};
DAT_RETURN open_ia(const open_options &options, const DAT_NAME_PTR name, DAT_COUNT qlen,
                   DAT_EVD_HANDLE *async_evd_handle, DAT_IA_HANDLE *ia_handle) noexcept;
DAT_RETURN ia_open(const DAT_NAME_PTR name, DAT_COUNT qlen, DAT_EVD_HANDLE *async_evd_handle,
                   DAT_IA_HANDLE *ia_handle) noexcept;
DAT_RETURN ia_open_thread_safe(const DAT_NAME_PTR name, DAT_COUNT qlen,
                               DAT_EVD_HANDLE *async_evd_handle, DAT_IA_HANDLE *ia_handle) noexcept;
DAT_RETURN ia_close(DAT_IA_HANDLE ia_handle, DAT_CLOSE_FLAGS flags) noexcept;

DAT_RETURN set_consumer_context(DAT_HANDLE handle, DAT_CONTEXT context) noexcept;
DAT_RETURN get_consumer_context(DAT_HANDLE handle, DAT_CONTEXT *context) noexcept;
DAT_RETURN get_handle_type(DAT_HANDLE handle, DAT_HANDLE_TYPE *handle_type) noexcept;

DAT_RETURN pz_create(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE *pz_handle) noexcept;
DAT_RETURN pz_query(DAT_PZ_HANDLE pz_handle, DAT_PZ_PARAM_MASK mask, DAT_PZ_PARAM *param) noexcept;
DAT_RETURN pz_free(DAT_PZ_HANDLE pz_handle) noexcept;

DAT_RETURN lmr_create(DAT_IA_HANDLE ia_handle, DAT_MEM_TYPE mem_type, DAT_REGION_DESCRIPTION region,
                      DAT_VLEN length, DAT_PZ_HANDLE pz_handle, DAT_MEM_PRIV_FLAGS privileges,
                      DAT_VA_TYPE va_type, DAT_LMR_HANDLE *lmr_handle, DAT_LMR_CONTEXT *lmr_context,
                      DAT_RMR_CONTEXT *rmr_context, DAT_VLEN *registered_length,
                      DAT_VADDR *registered_address) noexcept;
DAT_RETURN lmr_query(DAT_LMR_HANDLE lmr_handle, DAT_LMR_PARAM_MASK mask,
                     DAT_LMR_PARAM *param) noexcept;
DAT_RETURN lmr_free(DAT_LMR_HANDLE lmr_handle) noexcept;
DAT_RETURN lmr_sync_rdma_read(DAT_IA_HANDLE ia_handle, const DAT_LMR_TRIPLET *segments,
                              DAT_VLEN num_segments) noexcept;
DAT_RETURN lmr_sync_rdma_write(DAT_IA_HANDLE ia_handle, const DAT_LMR_TRIPLET *segments,
                               DAT_VLEN num_segments) noexcept;

DAT_RETURN rmr_create(DAT_PZ_HANDLE pz_handle, DAT_RMR_HANDLE *rmr_handle) noexcept;
DAT_RETURN rmr_create_for_ep(DAT_PZ_HANDLE pz_handle, DAT_RMR_HANDLE *rmr_handle) noexcept;
DAT_RETURN rmr_bind(DAT_RMR_HANDLE rmr_handle, DAT_LMR_HANDLE lmr_handle,
                    const DAT_LMR_TRIPLET *triplet, DAT_MEM_PRIV_FLAGS privileges,
                    DAT_VA_TYPE va_type, DAT_EP_HANDLE ep_handle, DAT_RMR_COOKIE user_cookie,
                    DAT_COMPLETION_FLAGS flags, DAT_RMR_CONTEXT *rmr_context) noexcept;
DAT_RETURN rmr_query(DAT_RMR_HANDLE rmr_handle, DAT_RMR_PARAM_MASK mask,
                     DAT_RMR_PARAM *param) noexcept;
DAT_RETURN rmr_free(DAT_RMR_HANDLE rmr_handle) noexcept;

DAT_RETURN evd_create(DAT_IA_HANDLE ia_handle, DAT_COUNT qlen, DAT_CNO_HANDLE cno_handle,
                      DAT_EVD_FLAGS flags, DAT_EVD_HANDLE *evd_handle) noexcept;
DAT_RETURN evd_query(DAT_EVD_HANDLE evd_handle, DAT_EVD_PARAM_MASK mask,
                     DAT_EVD_PARAM *param) noexcept;
DAT_RETURN evd_free(DAT_EVD_HANDLE evd_handle) noexcept;
DAT_RETURN evd_modify_cno(DAT_EVD_HANDLE evd_handle, DAT_CNO_HANDLE cno_handle) noexcept;
DAT_RETURN evd_enable(DAT_EVD_HANDLE evd_handle) noexcept;
DAT_RETURN evd_disable(DAT_EVD_HANDLE evd_handle) noexcept;
DAT_RETURN evd_set_unwaitable(DAT_EVD_HANDLE evd_handle) noexcept;
DAT_RETURN evd_clear_unwaitable(DAT_EVD_HANDLE evd_handle) noexcept;
DAT_RETURN evd_resize(DAT_EVD_HANDLE evd_handle, DAT_COUNT qlen) noexcept;
DAT_RETURN evd_post_se(DAT_EVD_HANDLE evd_handle, const DAT_EVENT *event) noexcept;
DAT_RETURN evd_dequeue(DAT_EVD_HANDLE evd_handle, DAT_EVENT *event) noexcept;
/// A cancellation point while it sleeps, like cno_wait; hence not noexcept.
DAT_RETURN evd_wait(DAT_EVD_HANDLE evd_handle, DAT_TIMEOUT timeout, DAT_COUNT threshold,
                    DAT_EVENT *event, DAT_COUNT *nmore);

DAT_RETURN cno_create(DAT_IA_HANDLE ia_handle, DAT_OS_WAIT_PROXY_AGENT agent,
                      DAT_CNO_HANDLE *cno_handle) noexcept;
DAT_RETURN cno_fd_create(DAT_IA_HANDLE ia_handle, DAT_FD *fd, DAT_CNO_HANDLE *cno_handle) noexcept;
DAT_RETURN cno_modify_agent(DAT_CNO_HANDLE cno_handle, DAT_OS_WAIT_PROXY_AGENT agent) noexcept;
DAT_RETURN cno_query(DAT_CNO_HANDLE cno_handle, DAT_CNO_PARAM_MASK mask,
                     DAT_CNO_PARAM *param) noexcept;
DAT_RETURN cno_free(DAT_CNO_HANDLE cno_handle) noexcept;
DAT_RETURN cno_trigger(DAT_CNO_HANDLE cno_handle, DAT_EVD_HANDLE *evd_handle) noexcept;
DAT_RETURN cno_wait(DAT_CNO_HANDLE cno_handle, DAT_TIMEOUT timeout, DAT_EVD_HANDLE *evd_handle);

DAT_RETURN ep_connect(DAT_EP_HANDLE ep_handle, DAT_IA_ADDRESS_PTR remote, DAT_CONN_QUAL qualifier,
                      DAT_TIMEOUT timeout, DAT_COUNT size, const DAT_PVOID data, DAT_QOS qos,
                      DAT_CONNECT_FLAGS flags) noexcept;
DAT_RETURN ep_common_connect(DAT_EP_HANDLE ep_handle, DAT_IA_ADDRESS_PTR remote,
                             DAT_TIMEOUT timeout, DAT_COUNT size, const DAT_PVOID data) noexcept;
DAT_RETURN ep_dup_connect(DAT_EP_HANDLE ep_handle, DAT_EP_HANDLE other_handle, DAT_TIMEOUT timeout,
                          DAT_COUNT size, const DAT_PVOID data, DAT_QOS qos) noexcept;
DAT_RETURN ep_disconnect(DAT_EP_HANDLE ep_handle, DAT_CLOSE_FLAGS flags) noexcept;
DAT_RETURN ep_create(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE pz_handle,
                     DAT_EVD_HANDLE recv_evd_handle, DAT_EVD_HANDLE request_evd_handle,
                     DAT_EVD_HANDLE connect_evd_handle, const DAT_EP_ATTR *attr,
                     DAT_EP_HANDLE *ep_handle) noexcept;
DAT_RETURN ep_create_with_srq(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE pz_handle,
                              DAT_EVD_HANDLE recv_evd_handle, DAT_EVD_HANDLE request_evd_handle,
                              DAT_EVD_HANDLE connect_evd_handle, DAT_SRQ_HANDLE srq_handle,
                              const DAT_EP_ATTR *attr, DAT_EP_HANDLE *ep_handle) noexcept;
DAT_RETURN ep_free(DAT_EP_HANDLE ep_handle) noexcept;
DAT_RETURN ep_reset(DAT_EP_HANDLE ep_handle) noexcept;
DAT_RETURN ep_get_status(DAT_EP_HANDLE ep_handle, DAT_EP_STATE *state, DAT_BOOLEAN *recv_idle,
                         DAT_BOOLEAN *request_idle) noexcept;
DAT_RETURN ep_recv_query(DAT_EP_HANDLE ep_handle, DAT_COUNT *allocated, DAT_COUNT *span) noexcept;
DAT_RETURN ep_set_watermark(DAT_EP_HANDLE ep_handle, DAT_COUNT soft, DAT_COUNT hard) noexcept;
DAT_RETURN ep_query(DAT_EP_HANDLE ep_handle, DAT_EP_PARAM_MASK mask, DAT_EP_PARAM *param) noexcept;
DAT_RETURN ep_modify(DAT_EP_HANDLE ep_handle, DAT_EP_PARAM_MASK mask,
                     const DAT_EP_PARAM *param) noexcept;
DAT_RETURN ep_post_send(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments, DAT_LMR_TRIPLET *iov,
                        DAT_DTO_COOKIE user_cookie, DAT_COMPLETION_FLAGS flags) noexcept;
DAT_RETURN ep_post_send_with_invalidate(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments,
                                        DAT_LMR_TRIPLET *iov, DAT_DTO_COOKIE user_cookie,
                                        DAT_COMPLETION_FLAGS flags, DAT_BOOLEAN invalidate,
                                        DAT_RMR_CONTEXT rmr_context) noexcept;
DAT_RETURN ep_post_rdma_write(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments, DAT_LMR_TRIPLET *iov,
                              DAT_DTO_COOKIE user_cookie, const DAT_RMR_TRIPLET *remote,
                              DAT_COMPLETION_FLAGS flags) noexcept;
DAT_RETURN ep_post_rdma_read(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments, DAT_LMR_TRIPLET *iov,
                             DAT_DTO_COOKIE user_cookie, const DAT_RMR_TRIPLET *remote,
                             DAT_COMPLETION_FLAGS flags) noexcept;
DAT_RETURN ep_post_rdma_read_to_rmr(DAT_EP_HANDLE ep_handle, const DAT_RMR_TRIPLET *local,
                                    DAT_DTO_COOKIE user_cookie, const DAT_RMR_TRIPLET *remote,
                                    DAT_COMPLETION_FLAGS flags) noexcept;
DAT_RETURN ep_post_recv(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments, DAT_LMR_TRIPLET *iov,
                        DAT_DTO_COOKIE user_cookie, DAT_COMPLETION_FLAGS) noexcept;

DAT_RETURN psp_create(DAT_IA_HANDLE ia_handle, DAT_CONN_QUAL qualifier, DAT_EVD_HANDLE evd_handle,
                      DAT_PSP_FLAGS flags, DAT_PSP_HANDLE *psp_handle) noexcept;
DAT_RETURN psp_create_any(DAT_IA_HANDLE ia_handle, DAT_CONN_QUAL *qualifier,
                          DAT_EVD_HANDLE evd_handle, DAT_PSP_FLAGS flags,
                          DAT_PSP_HANDLE *psp_handle) noexcept;
DAT_RETURN psp_query(DAT_PSP_HANDLE psp_handle, DAT_PSP_PARAM_MASK mask,
                     DAT_PSP_PARAM *param) noexcept;
DAT_RETURN psp_free(DAT_PSP_HANDLE psp_handle) noexcept;

DAT_RETURN rsp_create(DAT_IA_HANDLE ia_handle, DAT_CONN_QUAL qualifier, DAT_EP_HANDLE ep_handle,
                      DAT_EVD_HANDLE evd_handle, DAT_RSP_HANDLE *rsp_handle) noexcept;
DAT_RETURN rsp_query(DAT_RSP_HANDLE rsp_handle, DAT_RSP_PARAM_MASK mask,
                     DAT_RSP_PARAM *param) noexcept;
DAT_RETURN rsp_free(DAT_RSP_HANDLE rsp_handle) noexcept;

DAT_RETURN csp_create(DAT_IA_HANDLE ia_handle, DAT_COMM *comm, DAT_IA_ADDRESS_PTR addr,
                      DAT_EVD_HANDLE evd_handle, DAT_CSP_HANDLE *csp_handle) noexcept;
DAT_RETURN csp_query(DAT_CSP_HANDLE csp_handle, DAT_CSP_PARAM_MASK mask,
                     DAT_CSP_PARAM *param) noexcept;
DAT_RETURN csp_free(DAT_CSP_HANDLE csp_handle) noexcept;

DAT_RETURN cr_query(DAT_CR_HANDLE cr_handle, DAT_CR_PARAM_MASK mask, DAT_CR_PARAM *param) noexcept;
DAT_RETURN cr_accept(DAT_CR_HANDLE cr_handle, DAT_EP_HANDLE ep_handle, DAT_COUNT size,
                     const DAT_PVOID data) noexcept;
DAT_RETURN cr_reject(DAT_CR_HANDLE cr_handle, DAT_COUNT size, const DAT_PVOID data) noexcept;
DAT_RETURN cr_handoff(DAT_CR_HANDLE cr_handle, DAT_CONN_QUAL qualifier) noexcept;

DAT_RETURN srq_create(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE pz_handle, DAT_SRQ_ATTR *attr,
                      DAT_SRQ_HANDLE *srq_handle) noexcept;
DAT_RETURN srq_free(DAT_SRQ_HANDLE srq_handle) noexcept;
DAT_RETURN srq_post_recv(DAT_SRQ_HANDLE srq_handle, DAT_COUNT num_segments, DAT_LMR_TRIPLET *iov,
                         DAT_DTO_COOKIE user_cookie) noexcept;
DAT_RETURN srq_query(DAT_SRQ_HANDLE srq_handle, DAT_SRQ_PARAM_MASK mask,
                     DAT_SRQ_PARAM *param) noexcept;
DAT_RETURN srq_resize(DAT_SRQ_HANDLE srq_handle, DAT_COUNT dtos) noexcept;
DAT_RETURN srq_set_lw(DAT_SRQ_HANDLE srq_handle, DAT_COUNT watermark) noexcept;

} // namespace coherdma::dapl
