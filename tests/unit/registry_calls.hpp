// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The calls that a registry passes on to a provider, and what it says of a handle that is none.
#pragma once

#include "registry_version.hpp"

#include <tuple>

namespace registry_calls {

template <auto Function, auto Member, DAT_RETURN_SUBTYPE Subtype>
struct call {
    static constexpr auto function = Function;
    static constexpr auto member = Member;
    static constexpr DAT_RETURN_SUBTYPE subtype = Subtype;
};

using of_both = std::tuple<
    call<&dat_ia_query, &DAT_PROVIDER::ia_query_func, DAT_INVALID_HANDLE_IA>,
    call<&dat_get_handle_type, &DAT_PROVIDER::get_handle_type_func, DAT_INVALID_HANDLE1>,
    call<&dat_set_consumer_context, &DAT_PROVIDER::set_consumer_context_func, DAT_INVALID_HANDLE1>,
    call<&dat_get_consumer_context, &DAT_PROVIDER::get_consumer_context_func, DAT_INVALID_HANDLE1>,
    call<&dat_evd_create, &DAT_PROVIDER::evd_create_func, DAT_INVALID_HANDLE_IA>,
    call<&dat_evd_wait, &DAT_PROVIDER::evd_wait_func, DAT_INVALID_HANDLE_EVD_REQUEST>,
    call<&dat_evd_dequeue, &DAT_PROVIDER::evd_dequeue_func, DAT_INVALID_HANDLE_EVD_REQUEST>,
    call<&dat_evd_post_se, &DAT_PROVIDER::evd_post_se_func, DAT_INVALID_HANDLE_EVD_REQUEST>,
    call<&dat_evd_modify_cno, &DAT_PROVIDER::evd_modify_cno_func, DAT_INVALID_HANDLE_EVD_REQUEST>,
    call<&dat_evd_enable, &DAT_PROVIDER::evd_enable_func, DAT_INVALID_HANDLE_EVD_REQUEST>,
    call<&dat_evd_disable, &DAT_PROVIDER::evd_disable_func, DAT_INVALID_HANDLE_EVD_REQUEST>,
    call<&dat_evd_set_unwaitable, &DAT_PROVIDER::evd_set_unwaitable_func,
         DAT_INVALID_HANDLE_EVD_REQUEST>,
    call<&dat_evd_clear_unwaitable, &DAT_PROVIDER::evd_clear_unwaitable_func,
         DAT_INVALID_HANDLE_EVD_REQUEST>,
    call<&dat_evd_resize, &DAT_PROVIDER::evd_resize_func, DAT_INVALID_HANDLE_EVD_REQUEST>,
    call<&dat_evd_query, &DAT_PROVIDER::evd_query_func, DAT_INVALID_HANDLE_EVD_REQUEST>,
    call<&dat_evd_free, &DAT_PROVIDER::evd_free_func, DAT_INVALID_HANDLE_EVD_REQUEST>,
    call<&dat_cno_create, &DAT_PROVIDER::cno_create_func, DAT_INVALID_HANDLE_IA>,
    call<&dat_cno_wait, &DAT_PROVIDER::cno_wait_func, DAT_INVALID_HANDLE_CNO>,
    call<&dat_cno_modify_agent, &DAT_PROVIDER::cno_modify_agent_func, DAT_INVALID_HANDLE_CNO>,
    call<&dat_cno_query, &DAT_PROVIDER::cno_query_func, DAT_INVALID_HANDLE_CNO>,
    call<&dat_cno_free, &DAT_PROVIDER::cno_free_func, DAT_INVALID_HANDLE_CNO>,
    call<&dat_pz_create, &DAT_PROVIDER::pz_create_func, DAT_INVALID_HANDLE_IA>,
    call<&dat_pz_query, &DAT_PROVIDER::pz_query_func, DAT_INVALID_HANDLE_PZ>,
    call<&dat_pz_free, &DAT_PROVIDER::pz_free_func, DAT_INVALID_HANDLE_PZ>,
    call<&dat_lmr_create, &DAT_PROVIDER::lmr_create_func, DAT_INVALID_HANDLE_IA>,
    call<&dat_lmr_query, &DAT_PROVIDER::lmr_query_func, DAT_INVALID_HANDLE_LMR>,
    call<&dat_lmr_free, &DAT_PROVIDER::lmr_free_func, DAT_INVALID_HANDLE_LMR>,
    call<&dat_lmr_sync_rdma_read, &DAT_PROVIDER::lmr_sync_rdma_read_func, DAT_INVALID_HANDLE_IA>,
    call<&dat_lmr_sync_rdma_write, &DAT_PROVIDER::lmr_sync_rdma_write_func, DAT_INVALID_HANDLE_IA>,
    call<&dat_rmr_create, &DAT_PROVIDER::rmr_create_func, DAT_INVALID_HANDLE_PZ>,
    call<&dat_rmr_bind, &DAT_PROVIDER::rmr_bind_func, DAT_INVALID_HANDLE_RMR>,
    call<&dat_rmr_query, &DAT_PROVIDER::rmr_query_func, DAT_INVALID_HANDLE_RMR>,
    call<&dat_rmr_free, &DAT_PROVIDER::rmr_free_func, DAT_INVALID_HANDLE_RMR>,
    call<&dat_psp_create, &DAT_PROVIDER::psp_create_func, DAT_INVALID_HANDLE_IA>,
    call<&dat_psp_create_any, &DAT_PROVIDER::psp_create_any_func, DAT_INVALID_HANDLE_IA>,
    call<&dat_psp_query, &DAT_PROVIDER::psp_query_func, DAT_INVALID_HANDLE_PSP>,
    call<&dat_psp_free, &DAT_PROVIDER::psp_free_func, DAT_INVALID_HANDLE_PSP>,
    call<&dat_rsp_create, &DAT_PROVIDER::rsp_create_func, DAT_INVALID_HANDLE_IA>,
    call<&dat_rsp_query, &DAT_PROVIDER::rsp_query_func, DAT_INVALID_HANDLE_RSP>,
    call<&dat_rsp_free, &DAT_PROVIDER::rsp_free_func, DAT_INVALID_HANDLE_RSP>,
    call<&dat_cr_query, &DAT_PROVIDER::cr_query_func, DAT_INVALID_HANDLE_CR>,
    call<&dat_cr_accept, &DAT_PROVIDER::cr_accept_func, DAT_INVALID_HANDLE_CR>,
    call<&dat_cr_reject, &DAT_PROVIDER::cr_reject_func, DAT_INVALID_HANDLE_CR>,
    call<&dat_cr_handoff, &DAT_PROVIDER::cr_handoff_func, DAT_INVALID_HANDLE_CR>,
    call<&dat_ep_connect, &DAT_PROVIDER::ep_connect_func, DAT_INVALID_HANDLE_EP>,
    call<&dat_ep_dup_connect, &DAT_PROVIDER::ep_dup_connect_func, DAT_INVALID_HANDLE_EP>,
    call<&dat_ep_disconnect, &DAT_PROVIDER::ep_disconnect_func, DAT_INVALID_HANDLE_EP>,
    call<&dat_ep_create, &DAT_PROVIDER::ep_create_func, DAT_INVALID_HANDLE_IA>,
    call<&dat_ep_create_with_srq, &DAT_PROVIDER::ep_create_with_srq_func, DAT_INVALID_HANDLE_IA>,
    call<&dat_ep_query, &DAT_PROVIDER::ep_query_func, DAT_INVALID_HANDLE_EP>,
    call<&dat_ep_modify, &DAT_PROVIDER::ep_modify_func, DAT_INVALID_HANDLE_EP>,
    call<&dat_ep_get_status, &DAT_PROVIDER::ep_get_status_func, DAT_INVALID_HANDLE_EP>,
    call<&dat_ep_recv_query, &DAT_PROVIDER::ep_recv_query_func, DAT_INVALID_HANDLE_EP>,
    call<&dat_ep_set_watermark, &DAT_PROVIDER::ep_set_watermark_func, DAT_INVALID_HANDLE_EP>,
    call<&dat_ep_reset, &DAT_PROVIDER::ep_reset_func, DAT_INVALID_HANDLE_EP>,
    call<&dat_ep_free, &DAT_PROVIDER::ep_free_func, DAT_INVALID_HANDLE_EP>,
    call<&dat_ep_post_send, &DAT_PROVIDER::ep_post_send_func, DAT_INVALID_HANDLE_EP>,
    call<&dat_ep_post_recv, &DAT_PROVIDER::ep_post_recv_func, DAT_INVALID_HANDLE_EP>,
    call<&dat_ep_post_rdma_read, &DAT_PROVIDER::ep_post_rdma_read_func, DAT_INVALID_HANDLE_EP>,
    call<&dat_ep_post_rdma_write, &DAT_PROVIDER::ep_post_rdma_write_func, DAT_INVALID_HANDLE_EP>,
    call<&dat_srq_create, &DAT_PROVIDER::srq_create_func, DAT_INVALID_HANDLE_IA>,
    call<&dat_srq_post_recv, &DAT_PROVIDER::srq_post_recv_func, DAT_INVALID_HANDLE_SRQ>,
    call<&dat_srq_query, &DAT_PROVIDER::srq_query_func, DAT_INVALID_HANDLE_SRQ>,
    call<&dat_srq_resize, &DAT_PROVIDER::srq_resize_func, DAT_INVALID_HANDLE_SRQ>,
    call<&dat_srq_set_lw, &DAT_PROVIDER::srq_set_lw_func, DAT_INVALID_HANDLE_SRQ>,
    call<&dat_srq_free, &DAT_PROVIDER::srq_free_func, DAT_INVALID_HANDLE_SRQ>>;

#ifdef COHERDMA_DAT1
using all = of_both;
#else
using of_2_0 = std::tuple<
    call<&dat_cno_fd_create, &DAT_PROVIDER::cno_fd_create_func, DAT_INVALID_HANDLE_IA>,
    call<&dat_cno_trigger, &DAT_PROVIDER::cno_trigger_func, DAT_INVALID_HANDLE_CNO>,
    call<&dat_rmr_create_for_ep, &DAT_PROVIDER::rmr_create_for_ep_func, DAT_INVALID_HANDLE_PZ>,
    call<&dat_csp_create, &DAT_PROVIDER::csp_create_func, DAT_INVALID_HANDLE_IA>,
    call<&dat_csp_query, &DAT_PROVIDER::csp_query_func, DAT_INVALID_HANDLE_CSP>,
    call<&dat_csp_free, &DAT_PROVIDER::csp_free_func, DAT_INVALID_HANDLE_CSP>,
    call<&dat_ep_common_connect, &DAT_PROVIDER::ep_common_connect_func, DAT_INVALID_HANDLE_EP>,
    call<&dat_ep_post_send_with_invalidate, &DAT_PROVIDER::ep_post_send_with_invalidate_func,
         DAT_INVALID_HANDLE_EP>,
    call<&dat_ep_post_rdma_read_to_rmr, &DAT_PROVIDER::ep_post_rdma_read_to_rmr_func,
         DAT_INVALID_HANDLE_EP>>;
using all = decltype(std::tuple_cat(of_both(), of_2_0()));
#endif

static_assert(std::tuple_size_v<of_both> == 66);

} // namespace registry_calls
