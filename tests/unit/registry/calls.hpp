// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The calls that a registry forwards to a provider, each with the error subtype for an invalid
// handle.
#pragma once

#include "version.hpp"

#include <tuple>

namespace registry_calls {

template <auto Function, auto Member, DAT_RETURN_SUBTYPE Subtype>
struct call {
    static constexpr auto function = Function;
    static constexpr auto member = Member;
    static constexpr DAT_RETURN_SUBTYPE subtype = Subtype;
};

#define CALL(name, invalid) call<&dat_##name, &DAT_PROVIDER::name##_func, DAT_INVALID_##invalid>

using common_calls = std::tuple<
    CALL(ia_query, HANDLE_IA), CALL(get_handle_type, HANDLE1), CALL(set_consumer_context, HANDLE1),
    CALL(get_consumer_context, HANDLE1), CALL(evd_create, HANDLE_IA),
    CALL(evd_wait, HANDLE_EVD_REQUEST), CALL(evd_dequeue, HANDLE_EVD_REQUEST),
    CALL(evd_post_se, HANDLE_EVD_REQUEST), CALL(evd_modify_cno, HANDLE_EVD_REQUEST),
    CALL(evd_enable, HANDLE_EVD_REQUEST), CALL(evd_disable, HANDLE_EVD_REQUEST),
    CALL(evd_set_unwaitable, HANDLE_EVD_REQUEST), CALL(evd_clear_unwaitable, HANDLE_EVD_REQUEST),
    CALL(evd_resize, HANDLE_EVD_REQUEST), CALL(evd_query, HANDLE_EVD_REQUEST),
    CALL(evd_free, HANDLE_EVD_REQUEST), CALL(cno_create, HANDLE_IA), CALL(cno_wait, HANDLE_CNO),
    CALL(cno_modify_agent, HANDLE_CNO), CALL(cno_query, HANDLE_CNO), CALL(cno_free, HANDLE_CNO),
    CALL(pz_create, HANDLE_IA), CALL(pz_query, HANDLE_PZ), CALL(pz_free, HANDLE_PZ),
    CALL(lmr_create, HANDLE_IA), CALL(lmr_query, HANDLE_LMR), CALL(lmr_free, HANDLE_LMR),
    CALL(lmr_sync_rdma_read, HANDLE_IA), CALL(lmr_sync_rdma_write, HANDLE_IA),
    CALL(rmr_create, HANDLE_PZ), CALL(rmr_bind, HANDLE_RMR), CALL(rmr_query, HANDLE_RMR),
    CALL(rmr_free, HANDLE_RMR), CALL(psp_create, HANDLE_IA), CALL(psp_create_any, HANDLE_IA),
    CALL(psp_query, HANDLE_PSP), CALL(psp_free, HANDLE_PSP), CALL(rsp_create, HANDLE_IA),
    CALL(rsp_query, HANDLE_RSP), CALL(rsp_free, HANDLE_RSP), CALL(cr_query, HANDLE_CR),
    CALL(cr_accept, HANDLE_CR), CALL(cr_reject, HANDLE_CR), CALL(cr_handoff, HANDLE_CR),
    CALL(ep_connect, HANDLE_EP), CALL(ep_dup_connect, HANDLE_EP), CALL(ep_disconnect, HANDLE_EP),
    CALL(ep_create, HANDLE_IA), CALL(ep_create_with_srq, HANDLE_IA), CALL(ep_query, HANDLE_EP),
    CALL(ep_modify, HANDLE_EP), CALL(ep_get_status, HANDLE_EP), CALL(ep_recv_query, HANDLE_EP),
    CALL(ep_set_watermark, HANDLE_EP), CALL(ep_reset, HANDLE_EP), CALL(ep_free, HANDLE_EP),
    CALL(ep_post_send, HANDLE_EP), CALL(ep_post_recv, HANDLE_EP),
    CALL(ep_post_rdma_read, HANDLE_EP), CALL(ep_post_rdma_write, HANDLE_EP),
    CALL(srq_create, HANDLE_IA), CALL(srq_post_recv, HANDLE_SRQ), CALL(srq_query, HANDLE_SRQ),
    CALL(srq_resize, HANDLE_SRQ), CALL(srq_set_lw, HANDLE_SRQ), CALL(srq_free, HANDLE_SRQ)>;

#ifdef COHERDMA_DAT1
using all_calls = common_calls;
#else
using dat2_calls =
    std::tuple<CALL(cno_fd_create, HANDLE_IA), CALL(cno_trigger, HANDLE_CNO),
               CALL(rmr_create_for_ep, HANDLE_PZ), CALL(csp_create, HANDLE_IA),
               CALL(csp_query, HANDLE_CSP), CALL(csp_free, HANDLE_CSP),
               CALL(ep_common_connect, HANDLE_EP), CALL(ep_post_send_with_invalidate, HANDLE_EP),
               CALL(ep_post_rdma_read_to_rmr, HANDLE_EP)>;
using all_calls = decltype(std::tuple_cat(common_calls(), dat2_calls()));
#endif

#undef CALL

static_assert(std::tuple_size_v<common_calls> == 66);

} // namespace registry_calls
