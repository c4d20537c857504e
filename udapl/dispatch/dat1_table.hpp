// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A provider's table of functions in DAT 1.2. Functions whose arguments are the same in 2.0 have
// the types of 2.0.
#pragma once

#include "dat1.hpp"

namespace coherdma::dapl::dat1 {

using lmr_list = lmr_triplet *;

template <class... arg_types>
using post_func = DAT_RETURN (*)(DAT_EP_HANDLE, DAT_COUNT, lmr_list, DAT_DTO_COOKIE, arg_types...);
template <class mask, class param>
using query_func = DAT_RETURN (*)(DAT_HANDLE, mask, param *);

/// In the order of OFED 1.2 and of Solaris. OFED's registry calls ia_open_func without ro_aware,
/// which Solaris sets if the name passed to dat_ia_open has a prefix.
struct provider {
    const char *device_name;
    DAT_PVOID extension;
    DAT_RETURN(*ia_open_func)
    (const DAT_NAME_PTR, DAT_COUNT, DAT_EVD_HANDLE *, DAT_IA_HANDLE *, DAT_BOOLEAN ro_aware);
    DAT_RETURN(*ia_query_func)
    (DAT_IA_HANDLE, DAT_EVD_HANDLE *, DAT_IA_ATTR_MASK, ia_attr *, DAT_PROVIDER_ATTR_MASK,
     provider_attr *);
    DAT_IA_CLOSE_FUNC ia_close_func;
    DAT_SET_CONSUMER_CONTEXT_FUNC set_consumer_context_func;
    DAT_GET_CONSUMER_CONTEXT_FUNC get_consumer_context_func;
    DAT_GET_HANDLE_TYPE_FUNC get_handle_type_func;
    DAT_CNO_CREATE_FUNC cno_create_func;
    DAT_CNO_MODIFY_AGENT_FUNC cno_modify_agent_func;
    query_func<DAT_CNO_PARAM_MASK, cno_param> cno_query_func;
    DAT_CNO_FREE_FUNC cno_free_func;
    DAT_CNO_WAIT_FUNC cno_wait_func;
    DAT_CR_QUERY_FUNC cr_query_func;
    DAT_CR_ACCEPT_FUNC cr_accept_func;
    DAT_RETURN (*cr_reject_func)(DAT_CR_HANDLE);
    DAT_CR_HANDOFF_FUNC cr_handoff_func;
    DAT_EVD_CREATE_FUNC evd_create_func;
    DAT_EVD_QUERY_FUNC evd_query_func;
    DAT_EVD_MODIFY_CNO_FUNC evd_modify_cno_func;
    DAT_EVD_ENABLE_FUNC evd_enable_func;
    DAT_EVD_DISABLE_FUNC evd_disable_func;
    DAT_RETURN(*evd_wait_func)
    (DAT_EVD_HANDLE, DAT_TIMEOUT, DAT_COUNT threshold, event *, DAT_COUNT *num_more);
    DAT_EVD_RESIZE_FUNC evd_resize_func;
    DAT_RETURN (*evd_post_se_func)(DAT_EVD_HANDLE, const event *);
    DAT_RETURN (*evd_dequeue_func)(DAT_EVD_HANDLE, event *);
    DAT_EVD_FREE_FUNC evd_free_func;
    DAT_RETURN(*ep_create_func)
    (DAT_IA_HANDLE, DAT_PZ_HANDLE, DAT_EVD_HANDLE recv, DAT_EVD_HANDLE request,
     DAT_EVD_HANDLE connect, const ep_attr *, DAT_EP_HANDLE *);
    query_func<DAT_EP_PARAM_MASK, ep_param> ep_query_func;
    query_func<DAT_EP_PARAM_MASK, const ep_param> ep_modify_func;
    DAT_EP_CONNECT_FUNC ep_connect_func;
    DAT_EP_DUP_CONNECT_FUNC ep_dup_connect_func;
    DAT_EP_DISCONNECT_FUNC ep_disconnect_func;
    post_func<DAT_COMPLETION_FLAGS> ep_post_send_func;
    post_func<DAT_COMPLETION_FLAGS> ep_post_recv_func;
    post_func<const rmr_triplet *, DAT_COMPLETION_FLAGS> ep_post_rdma_read_func;
    post_func<const rmr_triplet *, DAT_COMPLETION_FLAGS> ep_post_rdma_write_func;
    DAT_EP_GET_STATUS_FUNC ep_get_status_func;
    DAT_EP_FREE_FUNC ep_free_func;
    DAT_RETURN(*lmr_create_func)
    (DAT_IA_HANDLE, DAT_MEM_TYPE, DAT_REGION_DESCRIPTION, DAT_VLEN, DAT_PZ_HANDLE,
     DAT_MEM_PRIV_FLAGS, DAT_LMR_HANDLE *, DAT_LMR_CONTEXT *, DAT_RMR_CONTEXT *, DAT_VLEN *length,
     DAT_VADDR *address);
    query_func<DAT_LMR_PARAM_MASK, lmr_param> lmr_query_func;
    DAT_LMR_FREE_FUNC lmr_free_func;
    DAT_RMR_CREATE_FUNC rmr_create_func;
    query_func<DAT_RMR_PARAM_MASK, rmr_param> rmr_query_func;
    DAT_RETURN(*rmr_bind_func)
    (DAT_RMR_HANDLE, const lmr_triplet *, DAT_MEM_PRIV_FLAGS, DAT_EP_HANDLE, DAT_RMR_COOKIE,
     DAT_COMPLETION_FLAGS, DAT_RMR_CONTEXT *);
    DAT_RMR_FREE_FUNC rmr_free_func;
    DAT_PSP_CREATE_FUNC psp_create_func;
    DAT_PSP_QUERY_FUNC psp_query_func;
    DAT_PSP_FREE_FUNC psp_free_func;
    DAT_RSP_CREATE_FUNC rsp_create_func;
    DAT_RSP_QUERY_FUNC rsp_query_func;
    DAT_RSP_FREE_FUNC rsp_free_func;
    DAT_PZ_CREATE_FUNC pz_create_func;
    DAT_PZ_QUERY_FUNC pz_query_func;
    DAT_PZ_FREE_FUNC pz_free_func;
    DAT_PSP_CREATE_ANY_FUNC psp_create_any_func;
    DAT_EP_RESET_FUNC ep_reset_func;
    DAT_EVD_SET_UNWAITABLE_FUNC evd_set_unwaitable_func;
    DAT_EVD_CLEAR_UNWAITABLE_FUNC evd_clear_unwaitable_func;
    DAT_RETURN (*lmr_sync_rdma_read_func)(DAT_IA_HANDLE, const lmr_triplet *, DAT_VLEN);
    DAT_RETURN (*lmr_sync_rdma_write_func)(DAT_IA_HANDLE, const lmr_triplet *, DAT_VLEN);
    DAT_RETURN(*ep_create_with_srq_func)
    (DAT_IA_HANDLE, DAT_PZ_HANDLE, DAT_EVD_HANDLE recv, DAT_EVD_HANDLE request,
     DAT_EVD_HANDLE connect, DAT_SRQ_HANDLE, const ep_attr *, DAT_EP_HANDLE *);
    DAT_EP_RECV_QUERY_FUNC ep_recv_query_func;
    DAT_EP_SET_WATERMARK_FUNC ep_set_watermark_func;
    DAT_SRQ_CREATE_FUNC srq_create_func;
    DAT_SRQ_FREE_FUNC srq_free_func;
    DAT_RETURN (*srq_post_recv_func)(DAT_SRQ_HANDLE, DAT_COUNT, lmr_list, DAT_DTO_COOKIE);
    DAT_SRQ_QUERY_FUNC srq_query_func;
    DAT_SRQ_RESIZE_FUNC srq_resize_func;
    DAT_SRQ_SET_LW_FUNC srq_set_lw_func;
};

} // namespace coherdma::dapl::dat1
