// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "dapl/api.hpp"
#include "dat1_calls.hpp"
#include "dispatch.hpp"

namespace coherdma::dapl {

DAT_RETURN dat1::to_dat1_error(DAT_RETURN error) noexcept {
    return convert_result(error);
}

/// passthrough: the function of 2.0 has the same arguments; only its errors are converted.
dat1::provider make_dat1_table(const char *name, DAT_BOOLEAN thread_safe) noexcept {
    using namespace dat1;
    provider table = {};
    table.device_name = name;
    table.extension = const_cast<remote_calls *>(&extension);
    table.ia_open_func = thread_safe ? dat1::ia_open<true> : dat1::ia_open<false>;
    table.ia_query_func = dat1::ia_query;
    table.ia_close_func = passthrough<ia_close>::call;
    table.set_consumer_context_func = passthrough<set_consumer_context>::call;
    table.get_consumer_context_func = passthrough<get_consumer_context>::call;
    table.get_handle_type_func = passthrough<get_handle_type>::call;
    table.cno_create_func = passthrough<cno_create>::call;
    table.cno_modify_agent_func = passthrough<cno_modify_agent>::call;
    table.cno_query_func = dat1::cno_query;
    table.cno_free_func = passthrough<cno_free>::call;
    table.cno_wait_func = dat1::cno_wait;
    table.cr_query_func = passthrough<cr_query>::call;
    table.cr_accept_func = passthrough<cr_accept>::call;
    table.cr_reject_func = dat1::cr_reject;
    table.cr_handoff_func = passthrough<cr_handoff>::call;
    table.evd_create_func = passthrough<evd_create>::call;
    table.evd_query_func = passthrough<evd_query>::call;
    table.evd_modify_cno_func = passthrough<evd_modify_cno>::call;
    table.evd_enable_func = passthrough<evd_enable>::call;
    table.evd_disable_func = passthrough<evd_disable>::call;
    table.evd_wait_func = dat1::evd_wait;
    table.evd_resize_func = passthrough<evd_resize>::call;
    table.evd_post_se_func = dat1::evd_post_se;
    table.evd_dequeue_func = dat1::evd_dequeue;
    table.evd_free_func = passthrough<evd_free>::call;
    table.ep_create_func = dat1::ep_create;
    table.ep_query_func = dat1::ep_query;
    table.ep_modify_func = dat1::ep_modify;
    table.ep_connect_func = passthrough<ep_connect>::call;
    table.ep_dup_connect_func = passthrough<ep_dup_connect>::call;
    table.ep_disconnect_func = passthrough<ep_disconnect>::call;
    table.ep_post_send_func = dat1::ep_post_send;
    table.ep_post_recv_func = dat1::ep_post_recv;
    table.ep_post_rdma_read_func = dat1::ep_post_rdma_read;
    table.ep_post_rdma_write_func = dat1::ep_post_rdma_write;
    table.ep_get_status_func = passthrough<ep_get_status>::call;
    table.ep_free_func = passthrough<ep_free>::call;
    table.lmr_create_func = dat1::lmr_create;
    table.lmr_query_func = dat1::lmr_query;
    table.lmr_free_func = passthrough<lmr_free>::call;
    table.rmr_create_func = passthrough<rmr_create>::call;
    table.rmr_query_func = dat1::rmr_query;
    table.rmr_bind_func = dat1::rmr_bind;
    table.rmr_free_func = passthrough<rmr_free>::call;
    table.psp_create_func = passthrough<psp_create>::call;
    table.psp_query_func = passthrough<psp_query>::call;
    table.psp_free_func = passthrough<psp_free>::call;
    table.rsp_create_func = passthrough<rsp_create>::call;
    table.rsp_query_func = passthrough<rsp_query>::call;
    table.rsp_free_func = passthrough<rsp_free>::call;
    table.pz_create_func = passthrough<pz_create>::call;
    table.pz_query_func = passthrough<pz_query>::call;
    table.pz_free_func = passthrough<pz_free>::call;
    table.psp_create_any_func = passthrough<psp_create_any>::call;
    table.ep_reset_func = passthrough<ep_reset>::call;
    table.evd_set_unwaitable_func = passthrough<evd_set_unwaitable>::call;
    table.evd_clear_unwaitable_func = passthrough<evd_clear_unwaitable>::call;
    table.lmr_sync_rdma_read_func = dat1::lmr_sync_rdma_read;
    table.lmr_sync_rdma_write_func = dat1::lmr_sync_rdma_write;
    table.ep_create_with_srq_func = dat1::ep_create_with_srq;
    table.ep_recv_query_func = passthrough<ep_recv_query>::call;
    table.ep_set_watermark_func = passthrough<ep_set_watermark>::call;
    table.srq_create_func = passthrough<srq_create>::call;
    table.srq_free_func = passthrough<srq_free>::call;
    table.srq_post_recv_func = dat1::srq_post_recv;
    table.srq_query_func = dat1::srq_query;
    table.srq_resize_func = passthrough<srq_resize>::call;
    table.srq_set_lw_func = passthrough<srq_set_lw>::call;
    return table;
}

} // namespace coherdma::dapl
