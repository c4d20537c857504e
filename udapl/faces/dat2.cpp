// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "faces.hpp"

#include "dapl/api.hpp"
#include "dapl/settings.hpp"
#include "extensions/counters.hpp"
#include "extensions/ib.hpp"

namespace coherdma::dapl {

DAT_PROVIDER table_of_dat2(const char *name, DAT_BOOLEAN thread_safe) noexcept {
    DAT_PROVIDER all = {};
    all.device_name = name;
    all.ia_open_func = thread_safe ? ia_open_thread_safe : ia_open;
    all.ia_query_func = ia_query;
    all.ia_close_func = ia_close;
    all.set_consumer_context_func = set_consumer_context;
    all.get_consumer_context_func = get_consumer_context;
    all.get_handle_type_func = get_handle_type;
    all.cno_create_func = cno_create;
    all.cno_modify_agent_func = cno_modify_agent;
    all.cno_query_func = cno_query;
    all.cno_free_func = cno_free;
    all.cno_wait_func = cno_wait;
    all.cr_query_func = cr_query;
    all.cr_accept_func = cr_accept;
    all.cr_reject_func = cr_reject;
    all.cr_handoff_func = cr_handoff;
    all.evd_create_func = evd_create;
    all.evd_query_func = evd_query;
    all.evd_modify_cno_func = evd_modify_cno;
    all.evd_enable_func = evd_enable;
    all.evd_disable_func = evd_disable;
    all.evd_wait_func = evd_wait;
    all.evd_resize_func = evd_resize;
    all.evd_post_se_func = evd_post_se;
    all.evd_dequeue_func = evd_dequeue;
    all.evd_free_func = evd_free;
    all.ep_create_func = ep_create;
    all.ep_query_func = ep_query;
    all.ep_modify_func = ep_modify;
    all.ep_connect_func = ep_connect;
    all.ep_dup_connect_func = ep_dup_connect;
    all.ep_disconnect_func = ep_disconnect;
    all.ep_post_send_func = ep_post_send;
    all.ep_post_recv_func = ep_post_recv;
    all.ep_post_rdma_read_func = ep_post_rdma_read;
    all.ep_post_rdma_write_func = ep_post_rdma_write;
    all.ep_get_status_func = ep_get_status;
    all.ep_free_func = ep_free;
    all.lmr_create_func = lmr_create;
    all.lmr_query_func = lmr_query;
    all.lmr_free_func = lmr_free;
    all.rmr_create_func = rmr_create;
    all.rmr_query_func = rmr_query;
    all.rmr_bind_func = rmr_bind;
    all.rmr_free_func = rmr_free;
    all.psp_create_func = psp_create;
    all.psp_query_func = psp_query;
    all.psp_free_func = psp_free;
    all.rsp_create_func = rsp_create;
    all.rsp_query_func = rsp_query;
    all.rsp_free_func = rsp_free;
    all.pz_create_func = pz_create;
    all.pz_query_func = pz_query;
    all.pz_free_func = pz_free;
    all.psp_create_any_func = psp_create_any;
    all.ep_reset_func = ep_reset;
    all.evd_set_unwaitable_func = evd_set_unwaitable;
    all.evd_clear_unwaitable_func = evd_clear_unwaitable;
    all.lmr_sync_rdma_read_func = lmr_sync_rdma_read;
    all.lmr_sync_rdma_write_func = lmr_sync_rdma_write;
    all.ep_create_with_srq_func = ep_create_with_srq;
    all.ep_recv_query_func = ep_recv_query;
    all.ep_set_watermark_func = ep_set_watermark;
    all.srq_create_func = srq_create;
    all.srq_free_func = srq_free;
    all.srq_post_recv_func = srq_post_recv;
    all.srq_query_func = srq_query;
    all.srq_resize_func = srq_resize;
    all.srq_set_lw_func = srq_set_lw;
    all.csp_create_func = csp_create;
    all.csp_query_func = csp_query;
    all.csp_free_func = csp_free;
    all.ep_common_connect_func = ep_common_connect;
    all.rmr_create_for_ep_func = rmr_create_for_ep;
    all.ep_post_send_with_invalidate_func = ep_post_send_with_invalidate;
    all.ep_post_rdma_read_to_rmr_func = ep_post_rdma_read_to_rmr;
    all.cno_fd_create_func = cno_fd_create;
    all.cno_trigger_func = cno_trigger;
    all.ia_ha_related_func = ia_ha_related;
    all.handle_extendedop_func = extensions::operate;
    if (settings::counters())
        extensions::count_calls(all);
    return all;
}

} // namespace coherdma::dapl
