// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Verbs that go by the context's table.
#pragma once

#include <infiniband/verbs.h>

namespace played {

ibv_mw *alloc_mw(ibv_pd *in, ibv_mw_type type);
int dealloc_mw(ibv_mw *window);
int bind_mw(ibv_qp *by, ibv_mw *window, ibv_mw_bind *what);
int poll_cq(ibv_cq *queue, int most, ibv_wc *list);
int req_notify_cq(ibv_cq *queue, int solicited_only);
int post_send(ibv_qp *on, ibv_send_wr *list, ibv_send_wr **refused);
int post_recv(ibv_qp *on, ibv_recv_wr *list, ibv_recv_wr **refused);
int post_srq_recv(ibv_srq *on, ibv_recv_wr *list, ibv_recv_wr **refused);

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

} // namespace played
