// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The model: the types of results that each function may return for valid handles and arguments.
// DAT_INVALID_HANDLE is not among them: call.cpp decides whether a handle may be invalid.
// DAT_INVALID_PARAMETER is, where it depends on states that other threads or events change.

#pragma once

#include <cstdint>
#include <dat2/udat.h>

namespace sequencer {

/// The bit of a result's type.
constexpr std::uint32_t type_bit(DAT_RETURN value) {
    const DAT_RETURN type = DAT_GET_TYPE(value) >> 16;
    return std::uint32_t{1} << (type < 31 ? type : 31); // DAT_NOT_IMPLEMENTED is larger
}

struct call_rule {
    const char *name;
    std::uint32_t legal_types; ///< OR of type_bit(); DAT_INVALID_HANDLE is not among them
};

namespace rules {

inline constexpr std::uint32_t success = type_bit(DAT_SUCCESS),
                               resources = type_bit(DAT_INSUFFICIENT_RESOURCES),
                               invalid_state = type_bit(DAT_INVALID_STATE),
                               invalid_parameter = type_bit(DAT_INVALID_PARAMETER),
                               not_supported = type_bit(DAT_MODEL_NOT_SUPPORTED),
                               queue_empty = type_bit(DAT_QUEUE_EMPTY),
                               queue_full = type_bit(DAT_QUEUE_FULL),
                               timeout = type_bit(DAT_TIMEOUT_EXPIRED),
                               privileges = type_bit(DAT_PRIVILEGES_VIOLATION),
                               qual_in_use = type_bit(DAT_CONN_QUAL_IN_USE),
                               port_in_use = type_bit(DAT_PORT_IN_USE),
                               not_implemented = type_bit(DAT_NOT_IMPLEMENTED);

using rule = call_rule;
// clang-format off
inline constexpr rule
    ia_open              {"dat_ia_open", success | resources},
    ia_query             {"dat_ia_query", success},
    ia_close_abrupt      {"dat_ia_close abrupt", success},
    ia_close_graceful    {"dat_ia_close graceful", success | invalid_state},
    list_providers       {"dat_registry_list_providers", success},
    get_handle_type      {"dat_get_handle_type", success},
    set_consumer_context {"dat_set_consumer_context", success},
    get_consumer_context {"dat_get_consumer_context", success},

    evd_create           {"dat_evd_create", success | resources},
    evd_query            {"dat_evd_query", success},
    evd_modify_cno       {"dat_evd_modify_cno", success | resources},
    evd_enable           {"dat_evd_enable", success},
    evd_disable          {"dat_evd_disable", success},
    evd_set_unwaitable   {"dat_evd_set_unwaitable", success},
    evd_clear_unwaitable {"dat_evd_clear_unwaitable", success},
    evd_wait             {"dat_evd_wait", success | timeout | invalid_state | resources},
    evd_dequeue          {"dat_evd_dequeue", success | queue_empty | invalid_state},
    evd_post_se          {"dat_evd_post_se", success | queue_full},
    evd_resize           {"dat_evd_resize", success | invalid_state | not_supported | resources},
    evd_free             {"dat_evd_free", success | invalid_state},

    cno_create           {"dat_cno_create", success | resources},
    cno_fd_create        {"dat_cno_fd_create", success | resources},
    cno_query            {"dat_cno_query", success},
    cno_modify_agent     {"dat_cno_modify_agent", success | resources},
    cno_trigger          {"dat_cno_trigger", success | queue_empty},
    cno_wait             {"dat_cno_wait", success | queue_empty},
    cno_free             {"dat_cno_free", success | invalid_state},

    pz_create            {"dat_pz_create", success | resources},
    pz_query             {"dat_pz_query", success},
    pz_free              {"dat_pz_free", success | invalid_state},
    lmr_create           {"dat_lmr_create", success | resources},
    lmr_query            {"dat_lmr_query", success},
    lmr_free             {"dat_lmr_free", success | invalid_state},
    lmr_sync_rdma_read   {"dat_lmr_sync_rdma_read", success},
    lmr_sync_rdma_write  {"dat_lmr_sync_rdma_write", success},
    rmr_create           {"dat_rmr_create", success | resources},
    rmr_create_for_ep    {"dat_rmr_create_for_ep", success | resources},
    rmr_query            {"dat_rmr_query", success},
    rmr_bind             {"dat_rmr_bind", success | not_supported | privileges | invalid_state
                          | resources},
    rmr_free             {"dat_rmr_free", success},

    srq_create           {"dat_srq_create", success | resources | not_supported},
    srq_query            {"dat_srq_query", success},
    srq_post_recv        {"dat_srq_post_recv", success | resources},
    srq_resize           {"dat_srq_resize", success | invalid_state | not_supported | resources},
    srq_set_lw           {"dat_srq_set_lw", success | not_supported},
    srq_free             {"dat_srq_free", success | invalid_state},

    ep_create            {"dat_ep_create", success | resources},
    ep_create_with_srq   {"dat_ep_create_with_srq", success | resources},
    ep_query             {"dat_ep_query", success},
    ep_modify            {"dat_ep_modify", success | invalid_state | resources},
    ep_get_status        {"dat_ep_get_status", success},
    ep_recv_query        {"dat_ep_recv_query", success},
    ep_set_watermark     {"dat_ep_set_watermark", success | invalid_state},
    ep_reset             {"dat_ep_reset", success | invalid_state | resources},
    ep_free              {"dat_ep_free", success | invalid_state},
    ep_connect           {"dat_ep_connect", success | invalid_state | resources},
    ep_common_connect    {"dat_ep_common_connect", success | invalid_state | resources},
    ep_dup_connect       {"dat_ep_dup_connect", success | invalid_state | resources},
    ep_disconnect        {"dat_ep_disconnect", success | invalid_state | invalid_parameter},

    ep_post_send         {"dat_ep_post_send", success | invalid_state | resources},
    ep_post_send_with_invalidate
                         {"dat_ep_post_send_with_invalidate", success | invalid_state | resources
                          | not_supported},
    ep_post_recv         {"dat_ep_post_recv", success | invalid_state | resources},
    ep_post_rdma_read    {"dat_ep_post_rdma_read", success | invalid_state | resources},
    ep_post_rdma_read_to_rmr
                         {"dat_ep_post_rdma_read_to_rmr", success | invalid_state | resources
                          | privileges},
    ep_post_rdma_write   {"dat_ep_post_rdma_write", success | invalid_state | resources},
    ib_fetch_and_add     {"dat_ib_post_fetch_and_add", success | invalid_state | resources
                          | not_supported},
    ib_cmp_and_swap      {"dat_ib_post_cmp_and_swap", success | invalid_state | resources
                          | not_supported},
    ib_rdma_write_immed  {"dat_ib_post_rdma_write_immed", success | invalid_state | resources},
    ib_post_send_ud      {"dat_ib_post_send_ud", success | invalid_state | resources},
    ib_ud_ah_free        {"dat_ib_ud_ah_free", success},
    ib_ud_cm_free        {"dat_ib_ud_cm_free", success | invalid_parameter},
    atomic_write         {"dat_coherdma_post_atomic_write", success | invalid_state | resources
                          | not_supported},
    flush                {"dat_coherdma_post_flush", success | invalid_state | resources},
    query_methods        {"dat_coherdma_query_methods", success | invalid_state},

    psp_create           {"dat_psp_create", success | resources | qual_in_use},
    psp_create_any       {"dat_psp_create_any", success | resources},
    psp_query            {"dat_psp_query", success},
    psp_free             {"dat_psp_free", success},
    rsp_create           {"dat_rsp_create", success | invalid_state | resources | qual_in_use},
    rsp_query            {"dat_rsp_query", success},
    rsp_free             {"dat_rsp_free", success},
    csp_create           {"dat_csp_create", success | resources | port_in_use},
    csp_query            {"dat_csp_query", success},
    csp_free             {"dat_csp_free", success},
    cr_query             {"dat_cr_query", success},
    cr_accept            {"dat_cr_accept", success | invalid_state},
    cr_reject            {"dat_cr_reject", success},
    cr_handoff           {"dat_cr_handoff", success | invalid_parameter | queue_full | resources};
// clang-format on

} // namespace rules
} // namespace sequencer
