// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "dapl/api.hpp"
#include "dat1_calls.hpp"
#include "faces.hpp"

namespace coherdma::dapl {

DAT_RETURN dat1::told(DAT_RETURN failure) noexcept {
    return translated(failure);
}

dat1::provider table_of_dat1(const char *name, DAT_BOOLEAN thread_safe) noexcept {
    using namespace dat1;
    provider all = {};
    all.device_name = name;
    all.extension = const_cast<remote_calls *>(&extension);
    all.ia_open_func = thread_safe ? dat1::ia_open<true> : dat1::ia_open<false>;
    all.ia_query_func = dat1::ia_query;
    all.ia_close_func = as_it_is<ia_close>::call;
    all.set_consumer_context_func = as_it_is<set_consumer_context>::call;
    all.get_consumer_context_func = as_it_is<get_consumer_context>::call;
    all.get_handle_type_func = as_it_is<get_handle_type>::call;
    all.cno_create_func = as_it_is<cno_create>::call;
    all.cno_modify_agent_func = as_it_is<cno_modify_agent>::call;
    all.cno_query_func = dat1::cno_query;
    all.cno_free_func = as_it_is<cno_free>::call;
    all.cno_wait_func = as_it_is<cno_wait>::call;
    all.cr_query_func = as_it_is<cr_query>::call;
    all.cr_accept_func = as_it_is<cr_accept>::call;
    all.cr_reject_func = dat1::cr_reject;
    all.cr_handoff_func = as_it_is<cr_handoff>::call;
    all.evd_create_func = as_it_is<evd_create>::call;
    all.evd_query_func = as_it_is<evd_query>::call;
    all.evd_modify_cno_func = as_it_is<evd_modify_cno>::call;
    all.evd_enable_func = as_it_is<evd_enable>::call;
    all.evd_disable_func = as_it_is<evd_disable>::call;
    all.evd_wait_func = dat1::evd_wait;
    all.evd_resize_func = as_it_is<evd_resize>::call;
    all.evd_post_se_func = dat1::evd_post_se;
    all.evd_dequeue_func = dat1::evd_dequeue;
    all.evd_free_func = as_it_is<evd_free>::call;
    all.ep_create_func = dat1::ep_create;
    all.ep_query_func = dat1::ep_query;
    all.ep_modify_func = dat1::ep_modify;
    all.ep_connect_func = as_it_is<ep_connect>::call;
    all.ep_dup_connect_func = as_it_is<ep_dup_connect>::call;
    all.ep_disconnect_func = as_it_is<ep_disconnect>::call;
    all.ep_post_send_func = dat1::ep_post_send;
    all.ep_post_recv_func = dat1::ep_post_recv;
    all.ep_post_rdma_read_func = dat1::ep_post_rdma_read;
    all.ep_post_rdma_write_func = dat1::ep_post_rdma_write;
    all.ep_get_status_func = as_it_is<ep_get_status>::call;
    all.ep_free_func = as_it_is<ep_free>::call;
    all.lmr_create_func = dat1::lmr_create;
    all.lmr_query_func = dat1::lmr_query;
    all.lmr_free_func = as_it_is<lmr_free>::call;
    all.rmr_create_func = as_it_is<rmr_create>::call;
    all.rmr_query_func = dat1::rmr_query;
    all.rmr_bind_func = dat1::rmr_bind;
    all.rmr_free_func = as_it_is<rmr_free>::call;
    all.psp_create_func = as_it_is<psp_create>::call;
    all.psp_query_func = as_it_is<psp_query>::call;
    all.psp_free_func = as_it_is<psp_free>::call;
    all.rsp_create_func = as_it_is<rsp_create>::call;
    all.rsp_query_func = as_it_is<rsp_query>::call;
    all.rsp_free_func = as_it_is<rsp_free>::call;
    all.pz_create_func = as_it_is<pz_create>::call;
    all.pz_query_func = as_it_is<pz_query>::call;
    all.pz_free_func = as_it_is<pz_free>::call;
    all.psp_create_any_func = as_it_is<psp_create_any>::call;
    all.ep_reset_func = as_it_is<ep_reset>::call;
    all.evd_set_unwaitable_func = as_it_is<evd_set_unwaitable>::call;
    all.evd_clear_unwaitable_func = as_it_is<evd_clear_unwaitable>::call;
    all.lmr_sync_rdma_read_func = dat1::lmr_sync_rdma_read;
    all.lmr_sync_rdma_write_func = dat1::lmr_sync_rdma_write;
    all.ep_create_with_srq_func = dat1::ep_create_with_srq;
    all.ep_recv_query_func = as_it_is<ep_recv_query>::call;
    all.ep_set_watermark_func = as_it_is<ep_set_watermark>::call;
    all.srq_create_func = as_it_is<srq_create>::call;
    all.srq_free_func = as_it_is<srq_free>::call;
    all.srq_post_recv_func = dat1::srq_post_recv;
    all.srq_query_func = dat1::srq_query;
    all.srq_resize_func = as_it_is<srq_resize>::call;
    all.srq_set_lw_func = as_it_is<srq_set_lw>::call;
    return all;
}

} // namespace coherdma::dapl
