// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "dispatch.hpp"

#include "dapl/api.hpp"
#include "dapl/core/settings.hpp"
#include "extensions/ib.hpp"

namespace coherdma::dapl {

DAT_PROVIDER make_dat2_table(const char *name, DAT_BOOLEAN thread_safe) noexcept {
    DAT_PROVIDER table = {};
    table.device_name = name;
    table.ia_open_func = thread_safe ? ia_open_thread_safe : ia_open;
    table.ia_query_func = ia_query;
    table.ia_close_func = ia_close;
    table.set_consumer_context_func = set_consumer_context;
    table.get_consumer_context_func = get_consumer_context;
    table.get_handle_type_func = get_handle_type;
    table.cno_create_func = cno_create;
    table.cno_modify_agent_func = cno_modify_agent;
    table.cno_query_func = cno_query;
    table.cno_free_func = cno_free;
    table.cno_wait_func = cno_wait;
    table.cr_query_func = cr_query;
    table.cr_accept_func = cr_accept;
    table.cr_reject_func = cr_reject;
    table.cr_handoff_func = cr_handoff;
    table.evd_create_func = evd_create;
    table.evd_query_func = evd_query;
    table.evd_modify_cno_func = evd_modify_cno;
    table.evd_enable_func = evd_enable;
    table.evd_disable_func = evd_disable;
    table.evd_wait_func = evd_wait;
    table.evd_resize_func = evd_resize;
    table.evd_post_se_func = evd_post_se;
    table.evd_dequeue_func = evd_dequeue;
    table.evd_free_func = evd_free;
    table.ep_create_func = ep_create;
    table.ep_query_func = ep_query;
    table.ep_modify_func = ep_modify;
    table.ep_connect_func = ep_connect;
    table.ep_dup_connect_func = ep_dup_connect;
    table.ep_disconnect_func = ep_disconnect;
    table.ep_post_send_func = ep_post_send;
    table.ep_post_recv_func = ep_post_recv;
    table.ep_post_rdma_read_func = ep_post_rdma_read;
    table.ep_post_rdma_write_func = ep_post_rdma_write;
    table.ep_get_status_func = ep_get_status;
    table.ep_free_func = ep_free;
    table.lmr_create_func = lmr_create;
    table.lmr_query_func = lmr_query;
    table.lmr_free_func = lmr_free;
    table.rmr_create_func = rmr_create;
    table.rmr_query_func = rmr_query;
    table.rmr_bind_func = rmr_bind;
    table.rmr_free_func = rmr_free;
    table.psp_create_func = psp_create;
    table.psp_query_func = psp_query;
    table.psp_free_func = psp_free;
    table.rsp_create_func = rsp_create;
    table.rsp_query_func = rsp_query;
    table.rsp_free_func = rsp_free;
    table.pz_create_func = pz_create;
    table.pz_query_func = pz_query;
    table.pz_free_func = pz_free;
    table.psp_create_any_func = psp_create_any;
    table.ep_reset_func = ep_reset;
    table.evd_set_unwaitable_func = evd_set_unwaitable;
    table.evd_clear_unwaitable_func = evd_clear_unwaitable;
    table.lmr_sync_rdma_read_func = lmr_sync_rdma_read;
    table.lmr_sync_rdma_write_func = lmr_sync_rdma_write;
    table.ep_create_with_srq_func = ep_create_with_srq;
    table.ep_recv_query_func = ep_recv_query;
    table.ep_set_watermark_func = ep_set_watermark;
    table.srq_create_func = srq_create;
    table.srq_free_func = srq_free;
    table.srq_post_recv_func = srq_post_recv;
    table.srq_query_func = srq_query;
    table.srq_resize_func = srq_resize;
    table.srq_set_lw_func = srq_set_lw;
    table.csp_create_func = csp_create;
    table.csp_query_func = csp_query;
    table.csp_free_func = csp_free;
    table.ep_common_connect_func = ep_common_connect;
    table.rmr_create_for_ep_func = rmr_create_for_ep;
    table.ep_post_send_with_invalidate_func = ep_post_send_with_invalidate;
    table.ep_post_rdma_read_to_rmr_func = ep_post_rdma_read_to_rmr;
    table.cno_fd_create_func = cno_fd_create;
    table.cno_trigger_func = cno_trigger;
    table.ia_ha_related_func = ia_ha_related;
    table.handle_extendedop_func = extensions::extended_op;
    return table;
}

} // namespace coherdma::dapl
