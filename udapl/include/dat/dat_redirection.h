/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * For registries and providers: the functions of a provider's table that dat.h's functions lead to,
 * and macros that call them. Programs need none of it. udat_redirection.h has the table.
 */
#ifndef COHERDMA_DAT1_DAT_REDIRECTION_H
#define COHERDMA_DAT1_DAT_REDIRECTION_H

#include <dat/dat.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dat_provider DAT_PROVIDER;

/* Every object of a provider begins with the address of the provider's table. */
#ifndef DAT_HANDLE_TO_PROVIDER
#    define DAT_HANDLE_TO_PROVIDER(handle) (*DAT_CAST(DAT_PROVIDER **, handle))
#endif

/*
 * The provider's function for an object; the other arguments are those of the function. An IA's
 * handle is here what dats_get_ia_handle gives.
 */
#define DAT_CALL(handle, function, ...)                                                            \
    (DAT_HANDLE_TO_PROVIDER(handle)->function((handle), __VA_ARGS__))
#define DAT_CALL_ALONE(handle, function) (DAT_HANDLE_TO_PROVIDER(handle)->function(handle))

#define DAT_LMR_QUERY(lmr, ...) DAT_CALL(lmr, lmr_query_func, __VA_ARGS__)
#define DAT_IA_QUERY(ia, ...) DAT_CALL(ia, ia_query_func, __VA_ARGS__)
#define DAT_SET_CONSUMER_CONTEXT(handle, ...)                                                      \
    DAT_CALL(handle, set_consumer_context_func, __VA_ARGS__)
#define DAT_GET_CONSUMER_CONTEXT(handle, ...)                                                      \
    DAT_CALL(handle, get_consumer_context_func, __VA_ARGS__)
#define DAT_GET_HANDLE_TYPE(handle, ...) DAT_CALL(handle, get_handle_type_func, __VA_ARGS__)
#define DAT_CR_QUERY(cr, ...) DAT_CALL(cr, cr_query_func, __VA_ARGS__)
#define DAT_CR_ACCEPT(cr, ...) DAT_CALL(cr, cr_accept_func, __VA_ARGS__)
#define DAT_CR_REJECT(cr) DAT_CALL_ALONE(cr, cr_reject_func)
#define DAT_CR_HANDOFF(cr, ...) DAT_CALL(cr, cr_handoff_func, __VA_ARGS__)
#define DAT_EVD_QUERY(evd, ...) DAT_CALL(evd, evd_query_func, __VA_ARGS__)
#define DAT_EVD_RESIZE(evd, ...) DAT_CALL(evd, evd_resize_func, __VA_ARGS__)
#define DAT_EVD_POST_SE(evd, ...) DAT_CALL(evd, evd_post_se_func, __VA_ARGS__)
#define DAT_EVD_DEQUEUE(evd, ...) DAT_CALL(evd, evd_dequeue_func, __VA_ARGS__)
#define DAT_EVD_FREE(evd) DAT_CALL_ALONE(evd, evd_free_func)
#define DAT_EP_CREATE(ia, ...) DAT_CALL(ia, ep_create_func, __VA_ARGS__)
#define DAT_EP_QUERY(ep, ...) DAT_CALL(ep, ep_query_func, __VA_ARGS__)
#define DAT_EP_MODIFY(ep, ...) DAT_CALL(ep, ep_modify_func, __VA_ARGS__)
#define DAT_EP_CONNECT(ep, ...) DAT_CALL(ep, ep_connect_func, __VA_ARGS__)
#define DAT_EP_DUP_CONNECT(ep, ...) DAT_CALL(ep, ep_dup_connect_func, __VA_ARGS__)
#define DAT_EP_DISCONNECT(ep, ...) DAT_CALL(ep, ep_disconnect_func, __VA_ARGS__)
#define DAT_EP_POST_SEND(ep, ...) DAT_CALL(ep, ep_post_send_func, __VA_ARGS__)
#define DAT_EP_POST_RECV(ep, ...) DAT_CALL(ep, ep_post_recv_func, __VA_ARGS__)
#define DAT_EP_POST_RDMA_READ(ep, ...) DAT_CALL(ep, ep_post_rdma_read_func, __VA_ARGS__)
#define DAT_EP_POST_RDMA_WRITE(ep, ...) DAT_CALL(ep, ep_post_rdma_write_func, __VA_ARGS__)
#define DAT_EP_GET_STATUS(ep, ...) DAT_CALL(ep, ep_get_status_func, __VA_ARGS__)
#define DAT_EP_FREE(ep) DAT_CALL_ALONE(ep, ep_free_func)
#define DAT_LMR_FREE(lmr) DAT_CALL_ALONE(lmr, lmr_free_func)
#define DAT_RMR_CREATE(pz, ...) DAT_CALL(pz, rmr_create_func, __VA_ARGS__)
#define DAT_RMR_QUERY(rmr, ...) DAT_CALL(rmr, rmr_query_func, __VA_ARGS__)
#define DAT_RMR_BIND(rmr, ...) DAT_CALL(rmr, rmr_bind_func, __VA_ARGS__)
#define DAT_RMR_FREE(rmr) DAT_CALL_ALONE(rmr, rmr_free_func)
#define DAT_PSP_CREATE(ia, ...) DAT_CALL(ia, psp_create_func, __VA_ARGS__)
#define DAT_PSP_QUERY(psp, ...) DAT_CALL(psp, psp_query_func, __VA_ARGS__)
#define DAT_PSP_FREE(psp) DAT_CALL_ALONE(psp, psp_free_func)
#define DAT_RSP_CREATE(ia, ...) DAT_CALL(ia, rsp_create_func, __VA_ARGS__)
#define DAT_RSP_QUERY(rsp, ...) DAT_CALL(rsp, rsp_query_func, __VA_ARGS__)
#define DAT_RSP_FREE(rsp) DAT_CALL_ALONE(rsp, rsp_free_func)
#define DAT_PZ_CREATE(ia, ...) DAT_CALL(ia, pz_create_func, __VA_ARGS__)
#define DAT_PZ_QUERY(pz, ...) DAT_CALL(pz, pz_query_func, __VA_ARGS__)
#define DAT_PZ_FREE(pz) DAT_CALL_ALONE(pz, pz_free_func)
#define DAT_PSP_CREATE_ANY(ia, ...) DAT_CALL(ia, psp_create_any_func, __VA_ARGS__)
#define DAT_EP_RESET(ep) DAT_CALL_ALONE(ep, ep_reset_func)
#define DAT_LMR_SYNC_RDMA_READ(ia, ...) DAT_CALL(ia, lmr_sync_rdma_read_func, __VA_ARGS__)
#define DAT_LMR_SYNC_RDMA_WRITE(ia, ...) DAT_CALL(ia, lmr_sync_rdma_write_func, __VA_ARGS__)
#define DAT_EP_CREATE_WITH_SRQ(ia, ...) DAT_CALL(ia, ep_create_with_srq_func, __VA_ARGS__)
#define DAT_EP_RECV_QUERY(ep, ...) DAT_CALL(ep, ep_recv_query_func, __VA_ARGS__)
#define DAT_EP_SET_WATERMARK(ep, ...) DAT_CALL(ep, ep_set_watermark_func, __VA_ARGS__)
#define DAT_SRQ_CREATE(ia, ...) DAT_CALL(ia, srq_create_func, __VA_ARGS__)
#define DAT_SRQ_FREE(srq) DAT_CALL_ALONE(srq, srq_free_func)
#define DAT_SRQ_POST_RECV(srq, ...) DAT_CALL(srq, srq_post_recv_func, __VA_ARGS__)
#define DAT_SRQ_QUERY(srq, ...) DAT_CALL(srq, srq_query_func, __VA_ARGS__)
#define DAT_SRQ_RESIZE(srq, ...) DAT_CALL(srq, srq_resize_func, __VA_ARGS__)
#define DAT_SRQ_SET_LW(srq, ...) DAT_CALL(srq, srq_set_lw_func, __VA_ARGS__)

/*
 * ro_aware is Solaris': the name that the program gave began with RO_AWARE_. OFED's providers take
 * four arguments; where this is used, one more than a function takes does it no harm.
 */
typedef DAT_RETURN (*DAT_IA_OPEN_FUNC)(const DAT_NAME_PTR provider, DAT_COUNT asynch_evd_min_qlen,
                                       DAT_EVD_HANDLE *asynch_evd_handle, DAT_IA_HANDLE *ia_handle,
                                       DAT_BOOLEAN ro_aware);
typedef DAT_RETURN (*DAT_IA_OPENV_FUNC)(const DAT_NAME_PTR provider, DAT_COUNT asynch_evd_min_qlen,
                                        DAT_EVD_HANDLE *asynch_evd_handle, DAT_IA_HANDLE *ia_handle,
                                        DAT_UINT32 dat_major_version_number,
                                        DAT_UINT32 dat_minor_version_number,
                                        DAT_BOOLEAN dat_thread_safety);
typedef DAT_RETURN (*DAT_IA_QUERY_FUNC)(DAT_IA_HANDLE ia_handle, DAT_EVD_HANDLE *async_evd_handle,
                                        DAT_IA_ATTR_MASK ia_attr_mask, DAT_IA_ATTR *ia_attr,
                                        DAT_PROVIDER_ATTR_MASK provider_attr_mask,
                                        DAT_PROVIDER_ATTR *provider_attr);
typedef DAT_RETURN (*DAT_IA_CLOSE_FUNC)(DAT_IA_HANDLE ia_handle, DAT_CLOSE_FLAGS close_flags);
typedef DAT_RETURN (*DAT_SET_CONSUMER_CONTEXT_FUNC)(DAT_HANDLE dat_handle, DAT_CONTEXT context);
typedef DAT_RETURN (*DAT_GET_CONSUMER_CONTEXT_FUNC)(DAT_HANDLE dat_handle, DAT_CONTEXT *context);
typedef DAT_RETURN (*DAT_GET_HANDLE_TYPE_FUNC)(DAT_HANDLE dat_handle, DAT_HANDLE_TYPE *handle_type);
typedef DAT_RETURN (*DAT_CR_QUERY_FUNC)(DAT_CR_HANDLE cr_handle, DAT_CR_PARAM_MASK cr_param_mask,
                                        DAT_CR_PARAM *cr_param);
typedef DAT_RETURN (*DAT_CR_ACCEPT_FUNC)(DAT_CR_HANDLE cr_handle, DAT_EP_HANDLE ep_handle,
                                         DAT_COUNT private_data_size, const DAT_PVOID private_data);
typedef DAT_RETURN (*DAT_CR_REJECT_FUNC)(DAT_CR_HANDLE cr_handle);
typedef DAT_RETURN (*DAT_CR_HANDOFF_FUNC)(DAT_CR_HANDLE cr_handle, DAT_CONN_QUAL handoff);
typedef DAT_RETURN (*DAT_EVD_QUERY_FUNC)(DAT_EVD_HANDLE evd_handle,
                                         DAT_EVD_PARAM_MASK evd_param_mask,
                                         DAT_EVD_PARAM *evd_param);
typedef DAT_RETURN (*DAT_EVD_RESIZE_FUNC)(DAT_EVD_HANDLE evd_handle, DAT_COUNT evd_min_qlen);
typedef DAT_RETURN (*DAT_EVD_POST_SE_FUNC)(DAT_EVD_HANDLE evd_handle, const DAT_EVENT *event);
typedef DAT_RETURN (*DAT_EVD_DEQUEUE_FUNC)(DAT_EVD_HANDLE evd_handle, DAT_EVENT *event);
typedef DAT_RETURN (*DAT_EVD_FREE_FUNC)(DAT_EVD_HANDLE evd_handle);
typedef DAT_RETURN (*DAT_EP_CREATE_FUNC)(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE pz_handle,
                                         DAT_EVD_HANDLE recv_completion_evd_handle,
                                         DAT_EVD_HANDLE request_completion_evd_handle,
                                         DAT_EVD_HANDLE connect_evd_handle,
                                         const DAT_EP_ATTR *ep_attributes,
                                         DAT_EP_HANDLE *ep_handle);
typedef DAT_RETURN (*DAT_EP_QUERY_FUNC)(DAT_EP_HANDLE ep_handle, DAT_EP_PARAM_MASK ep_param_mask,
                                        DAT_EP_PARAM *ep_param);
typedef DAT_RETURN (*DAT_EP_MODIFY_FUNC)(DAT_EP_HANDLE ep_handle, DAT_EP_PARAM_MASK ep_param_mask,
                                         const DAT_EP_PARAM *ep_param);
typedef DAT_RETURN (*DAT_EP_CONNECT_FUNC)(DAT_EP_HANDLE ep_handle,
                                          DAT_IA_ADDRESS_PTR remote_ia_address,
                                          DAT_CONN_QUAL remote_conn_qual, DAT_TIMEOUT timeout,
                                          DAT_COUNT private_data_size, const DAT_PVOID private_data,
                                          DAT_QOS quality_of_service,
                                          DAT_CONNECT_FLAGS connect_flags);
typedef DAT_RETURN (*DAT_EP_DUP_CONNECT_FUNC)(DAT_EP_HANDLE ep_handle, DAT_EP_HANDLE ep_dup_handle,
                                              DAT_TIMEOUT timeout, DAT_COUNT private_data_size,
                                              const DAT_PVOID private_data,
                                              DAT_QOS quality_of_service);
typedef DAT_RETURN (*DAT_EP_DISCONNECT_FUNC)(DAT_EP_HANDLE ep_handle, DAT_CLOSE_FLAGS close_flags);
typedef DAT_RETURN (*DAT_EP_POST_SEND_FUNC)(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments,
                                            DAT_LMR_TRIPLET *local_iov, DAT_DTO_COOKIE user_cookie,
                                            DAT_COMPLETION_FLAGS completion_flags);
typedef DAT_RETURN (*DAT_EP_POST_RECV_FUNC)(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments,
                                            DAT_LMR_TRIPLET *local_iov, DAT_DTO_COOKIE user_cookie,
                                            DAT_COMPLETION_FLAGS completion_flags);
typedef DAT_RETURN (*DAT_EP_POST_RDMA_READ_FUNC)(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments,
                                                 DAT_LMR_TRIPLET *local_iov,
                                                 DAT_DTO_COOKIE user_cookie,
                                                 const DAT_RMR_TRIPLET *remote_iov,
                                                 DAT_COMPLETION_FLAGS completion_flags);
typedef DAT_RETURN (*DAT_EP_POST_RDMA_WRITE_FUNC)(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments,
                                                  DAT_LMR_TRIPLET *local_iov,
                                                  DAT_DTO_COOKIE user_cookie,
                                                  const DAT_RMR_TRIPLET *remote_iov,
                                                  DAT_COMPLETION_FLAGS completion_flags);
typedef DAT_RETURN (*DAT_EP_GET_STATUS_FUNC)(DAT_EP_HANDLE ep_handle, DAT_EP_STATE *ep_state,
                                             DAT_BOOLEAN *recv_idle, DAT_BOOLEAN *request_idle);
typedef DAT_RETURN (*DAT_EP_FREE_FUNC)(DAT_EP_HANDLE ep_handle);
typedef DAT_RETURN (*DAT_LMR_FREE_FUNC)(DAT_LMR_HANDLE lmr_handle);
typedef DAT_RETURN (*DAT_RMR_CREATE_FUNC)(DAT_PZ_HANDLE pz_handle, DAT_RMR_HANDLE *rmr_handle);
typedef DAT_RETURN (*DAT_RMR_QUERY_FUNC)(DAT_RMR_HANDLE rmr_handle,
                                         DAT_RMR_PARAM_MASK rmr_param_mask,
                                         DAT_RMR_PARAM *rmr_param);
typedef DAT_RETURN (*DAT_RMR_BIND_FUNC)(DAT_RMR_HANDLE rmr_handle,
                                        const DAT_LMR_TRIPLET *lmr_triplet,
                                        DAT_MEM_PRIV_FLAGS mem_priv, DAT_EP_HANDLE ep_handle,
                                        DAT_RMR_COOKIE user_cookie,
                                        DAT_COMPLETION_FLAGS completion_flags,
                                        DAT_RMR_CONTEXT *context);
typedef DAT_RETURN (*DAT_RMR_FREE_FUNC)(DAT_RMR_HANDLE rmr_handle);
typedef DAT_RETURN (*DAT_PSP_CREATE_FUNC)(DAT_IA_HANDLE ia_handle, DAT_CONN_QUAL conn_qual,
                                          DAT_EVD_HANDLE evd_handle, DAT_PSP_FLAGS psp_flags,
                                          DAT_PSP_HANDLE *psp_handle);
typedef DAT_RETURN (*DAT_PSP_QUERY_FUNC)(DAT_PSP_HANDLE psp_handle,
                                         DAT_PSP_PARAM_MASK psp_param_mask,
                                         DAT_PSP_PARAM *psp_param);
typedef DAT_RETURN (*DAT_PSP_FREE_FUNC)(DAT_PSP_HANDLE psp_handle);
typedef DAT_RETURN (*DAT_RSP_CREATE_FUNC)(DAT_IA_HANDLE ia_handle, DAT_CONN_QUAL conn_qual,
                                          DAT_EP_HANDLE ep_handle, DAT_EVD_HANDLE evd_handle,
                                          DAT_RSP_HANDLE *rsp_handle);
typedef DAT_RETURN (*DAT_RSP_QUERY_FUNC)(DAT_RSP_HANDLE rsp_handle,
                                         DAT_RSP_PARAM_MASK rsp_param_mask,
                                         DAT_RSP_PARAM *rsp_param);
typedef DAT_RETURN (*DAT_RSP_FREE_FUNC)(DAT_RSP_HANDLE rsp_handle);
typedef DAT_RETURN (*DAT_PZ_CREATE_FUNC)(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE *pz_handle);
typedef DAT_RETURN (*DAT_PZ_QUERY_FUNC)(DAT_PZ_HANDLE pz_handle, DAT_PZ_PARAM_MASK pz_param_mask,
                                        DAT_PZ_PARAM *pz_param);
typedef DAT_RETURN (*DAT_PZ_FREE_FUNC)(DAT_PZ_HANDLE pz_handle);
typedef DAT_RETURN (*DAT_PSP_CREATE_ANY_FUNC)(DAT_IA_HANDLE ia_handle, DAT_CONN_QUAL *conn_qual,
                                              DAT_EVD_HANDLE evd_handle, DAT_PSP_FLAGS psp_flags,
                                              DAT_PSP_HANDLE *psp_handle);
typedef DAT_RETURN (*DAT_EP_RESET_FUNC)(DAT_EP_HANDLE ep_handle);
typedef DAT_RETURN (*DAT_LMR_SYNC_RDMA_READ_FUNC)(DAT_IA_HANDLE ia_handle,
                                                  const DAT_LMR_TRIPLET *local_segments,
                                                  DAT_VLEN num_segments);
typedef DAT_RETURN (*DAT_LMR_SYNC_RDMA_WRITE_FUNC)(DAT_IA_HANDLE ia_handle,
                                                   const DAT_LMR_TRIPLET *local_segments,
                                                   DAT_VLEN num_segments);
typedef DAT_RETURN (*DAT_EP_CREATE_WITH_SRQ_FUNC)(
    DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE pz_handle, DAT_EVD_HANDLE recv_evd_handle,
    DAT_EVD_HANDLE request_evd_handle, DAT_EVD_HANDLE connect_evd_handle, DAT_SRQ_HANDLE srq_handle,
    const DAT_EP_ATTR *ep_attributes, DAT_EP_HANDLE *ep_handle);
typedef DAT_RETURN (*DAT_EP_RECV_QUERY_FUNC)(DAT_EP_HANDLE ep_handle, DAT_COUNT *nbufs_allocated,
                                             DAT_COUNT *bufs_alloc_span);
typedef DAT_RETURN (*DAT_EP_SET_WATERMARK_FUNC)(DAT_EP_HANDLE ep_handle,
                                                DAT_COUNT soft_high_watermark,
                                                DAT_COUNT hard_high_watermark);
typedef DAT_RETURN (*DAT_SRQ_CREATE_FUNC)(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE pz_handle,
                                          DAT_SRQ_ATTR *srq_attr, DAT_SRQ_HANDLE *srq_handle);
typedef DAT_RETURN (*DAT_SRQ_FREE_FUNC)(DAT_SRQ_HANDLE srq_handle);
typedef DAT_RETURN (*DAT_SRQ_POST_RECV_FUNC)(DAT_SRQ_HANDLE srq_handle, DAT_COUNT num_segments,
                                             DAT_LMR_TRIPLET *local_iov,
                                             DAT_DTO_COOKIE user_cookie);
typedef DAT_RETURN (*DAT_SRQ_QUERY_FUNC)(DAT_SRQ_HANDLE srq_handle,
                                         DAT_SRQ_PARAM_MASK srq_param_mask,
                                         DAT_SRQ_PARAM *srq_param);
typedef DAT_RETURN (*DAT_SRQ_RESIZE_FUNC)(DAT_SRQ_HANDLE srq_handle, DAT_COUNT srq_max_recv_dto);
typedef DAT_RETURN (*DAT_SRQ_SET_LW_FUNC)(DAT_SRQ_HANDLE srq_handle, DAT_COUNT low_watermark);

#ifdef __cplusplus
}
#endif

#endif
