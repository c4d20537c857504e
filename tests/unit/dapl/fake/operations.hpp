// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Verbs that verbs.h calls through the function table of a context.
#pragma once

#include <infiniband/verbs.h>

namespace fake {

ibv_mw *alloc_mw(ibv_pd *ibpd, ibv_mw_type type);
int dealloc_mw(ibv_mw *ibmw);
int bind_mw(ibv_qp *ibqp, ibv_mw *ibmw, ibv_mw_bind *bind_attr);
int poll_cq(ibv_cq *ibcq, int num_entries, ibv_wc *list);
int req_notify_cq(ibv_cq *ibcq, int solicited_only);
int post_send(ibv_qp *ibqp, ibv_send_wr *list, ibv_send_wr **bad_wr);
int post_recv(ibv_qp *ibqp, ibv_recv_wr *list, ibv_recv_wr **bad_wr);
int post_srq_recv(ibv_srq *ibsrq, ibv_recv_wr *list, ibv_recv_wr **bad_wr);

inline void operate(ibv_context_ops &table) {
    table.alloc_mw = alloc_mw;
    table.dealloc_mw = dealloc_mw;
    table.bind_mw = bind_mw;
    table.poll_cq = poll_cq;
    table.req_notify_cq = req_notify_cq;
    table.post_send = post_send;
    table.post_recv = post_recv;
    table.post_srq_recv = post_srq_recv;
}

} // namespace fake
