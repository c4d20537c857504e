// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The names that dat_ib_print_counters prints: those of dat_ib_extensions.h.

#include "counters.hpp"

#include <iterator>

namespace coherdma::dapl::extensions {

namespace {

constexpr const char *ia_counter_names[] = {
    "DCNT_IA_PZ_CREATE",
    "DCNT_IA_PZ_FREE",
    "DCNT_IA_LMR_CREATE",
    "DCNT_IA_LMR_FREE",
    "DCNT_IA_RMR_CREATE",
    "DCNT_IA_RMR_FREE",
    "DCNT_IA_PSP_CREATE",
    "DCNT_IA_PSP_CREATE_ANY",
    "DCNT_IA_PSP_FREE",
    "DCNT_IA_RSP_CREATE",
    "DCNT_IA_RSP_FREE",
    "DCNT_IA_EVD_CREATE",
    "DCNT_IA_EVD_FREE",
    "DCNT_IA_EP_CREATE",
    "DCNT_IA_EP_FREE",
    "DCNT_IA_SRQ_CREATE",
    "DCNT_IA_SRQ_FREE",
    "DCNT_IA_SP_CR",
    "DCNT_IA_SP_CR_ACCEPTED",
    "DCNT_IA_SP_CR_REJECTED",
    "DCNT_IA_MEM_ALLOC",
    "DCNT_IA_MEM_ALLOC_DATA",
    "DCNT_IA_MEM_FREE",
    "DCNT_IA_ASYNC_ERROR",
    "DCNT_IA_ASYNC_QP_ERROR",
    "DCNT_IA_ASYNC_CQ_ERROR",
    "DCNT_IA_CM_LISTEN",
    "DCNT_IA_CM_REQ_TX",
    "DCNT_IA_CM_REQ_RX",
    "DCNT_IA_CM_REP_TX",
    "DCNT_IA_CM_REP_RX",
    "DCNT_IA_CM_RTU_TX",
    "DCNT_IA_CM_RTU_RX",
    "DCNT_IA_CM_USER_REJ_TX",
    "DCNT_IA_CM_USER_REJ_RX",
    "DCNT_IA_CM_ACTIVE_EST",
    "DCNT_IA_CM_PASSIVE_EST",
    "DCNT_IA_CM_AH_REQ_TX",
    "DCNT_IA_CM_AH_REQ_RX",
    "DCNT_IA_CM_AH_RESOLVED",
    "DCNT_IA_CM_DREQ_TX",
    "DCNT_IA_CM_DREQ_RX",
    "DCNT_IA_CM_DREP_TX",
    "DCNT_IA_CM_DREP_RX",
    "DCNT_IA_CM_MRA_TX",
    "DCNT_IA_CM_MRA_RX",
    "DCNT_IA_CM_REQ_FULLQ_POLL",
    "DCNT_IA_CM_ERR",
    "DCNT_IA_CM_ERR_REQ_FULLQ",
    "DCNT_IA_CM_ERR_REQ_DUP",
    "DCNT_IA_CM_ERR_REQ_RETRY",
    "DCNT_IA_CM_ERR_REP_DUP",
    "DCNT_IA_CM_ERR_REP_RETRY",
    "DCNT_IA_CM_ERR_RTU_DUP",
    "DCNT_IA_CM_ERR_RTU_RETRY",
    "DCNT_IA_CM_ERR_REFUSED",
    "DCNT_IA_CM_ERR_RESET",
    "DCNT_IA_CM_ERR_TIMEOUT",
    "DCNT_IA_CM_ERR_REJ_TX",
    "DCNT_IA_CM_ERR_REJ_RX",
    "DCNT_IA_CM_ERR_DREQ_DUP",
    "DCNT_IA_CM_ERR_DREQ_RETRY",
    "DCNT_IA_CM_ERR_DREP_DUP",
    "DCNT_IA_CM_ERR_DREP_RETRY",
    "DCNT_IA_CM_ERR_MRA_DUP",
    "DCNT_IA_CM_ERR_MRA_RETRY",
    "DCNT_IA_CM_ERR_UNEXPECTED",
    "DCNT_IA_LNK_ERR_RCV",
    "DCNT_IA_LNK_ERR_RCV_REM_PHYS",
    "DCNT_IA_LNK_ERR_RCV_CONSTRAINT",
    "DCNT_IA_LNK_ERR_XMT_DISCARDS",
    "DCNT_IA_LNK_ERR_XMT_CONTRAINT",
    "DCNT_IA_LNK_ERR_INTEGRITY",
    "DCNT_IA_LNK_ERR_EXC_BUF_OVERRUN",
    "DCNT_IA_LNK_WARN_RCV_SW_RELAY",
    "DCNT_IA_LNK_WARN_XMT_WAIT",
    "DCNT_IA_DIAG_ERR_RQ_RAE",
    "DCNT_IA_DIAG_ERR_RQ_OOS",
    "DCNT_IA_DIAG_ERR_RQ_RIRE",
    "DCNT_IA_DIAG_ERR_RQ_UDSDPRD",
    "DCNT_IA_DIAG_ERR_SQ_RAE",
    "DCNT_IA_DIAG_ERR_SQ_OOS",
    "DCNT_IA_DIAG_ERR_SQ_RIRE",
    "DCNT_IA_DIAG_ERR_SQ_RREE",
    "DCNT_IA_DIAG_ERR_SQ_TREE",
};

constexpr const char *ep_counter_names[] = {
    "DCNT_EP_CONNECT",         "DCNT_EP_DISCONNECT",     "DCNT_EP_POST_SEND",
    "DCNT_EP_POST_SEND_DATA",  "DCNT_EP_POST_SEND_UD",   "DCNT_EP_POST_SEND_UD_DATA",
    "DCNT_EP_POST_RECV",       "DCNT_EP_POST_RECV_DATA", "DCNT_EP_POST_WRITE",
    "DCNT_EP_POST_WRITE_DATA", "DCNT_EP_POST_WRITE_IMM", "DCNT_EP_POST_WRITE_IMM_DATA",
    "DCNT_EP_POST_READ",       "DCNT_EP_POST_READ_DATA", "DCNT_EP_POST_CMP_SWAP",
    "DCNT_EP_POST_FETCH_ADD",  "DCNT_EP_RECV",           "DCNT_EP_RECV_DATA",
    "DCNT_EP_RECV_UD",         "DCNT_EP_RECV_UD_DATA",   "DCNT_EP_RECV_IMM",
    "DCNT_EP_RECV_IMM_DATA",   "DCNT_EP_RECV_RDMA_IMM",  "DCNT_EP_RECV_RDMA_IMM_DATA",
};

constexpr const char *evd_counter_names[] = {
    "DCNT_EVD_WAIT",         "DCNT_EVD_WAIT_BLOCKED",       "DCNT_EVD_WAIT_NOTIFY",
    "DCNT_EVD_DEQUEUE",      "DCNT_EVD_DEQUEUE_FOUND",      "DCNT_EVD_DEQUEUE_NOT_FOUND",
    "DCNT_EVD_DEQUEUE_POLL", "DCNT_EVD_DEQUEUE_POLL_FOUND", "DCNT_EVD_CONN_CALLBACK",
    "DCNT_EVD_DTO_CALLBACK",
};

static_assert(std::size(ia_counter_names) == DCNT_IA_ALL_COUNTERS);
static_assert(std::size(ep_counter_names) == DCNT_EP_ALL_COUNTERS);
static_assert(std::size(evd_counter_names) == DCNT_EVD_ALL_COUNTERS);

} // namespace

const char *counter_name(DAT_HANDLE_TYPE handle_type, unsigned counter) noexcept {
    return handle_type == DAT_HANDLE_TYPE_IA   ? ia_counter_names[counter]
           : handle_type == DAT_HANDLE_TYPE_EP ? ep_counter_names[counter]
                                               : evd_counter_names[counter];
}

} // namespace coherdma::dapl::extensions
