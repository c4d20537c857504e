// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "objects.hpp"

namespace fake {
namespace {

/// A driver that returns an error may leave *bad_wr as it was: rdma-core's rxe does if its doorbell
/// fails. mana takes a call without bad_wr.
template <class wr_type>
void set_bad_wr(ibv_context *context, wr_type **bad_wr, wr_type *wr) noexcept {
    if (bad_wr != nullptr && !to_fake_context(context).has_no_bad_wr)
        *bad_wr = wr;
}

send_request make_send(const fake_qp &qp, const ibv_send_wr &wr) noexcept {
    send_request made = {};
    made.wr = wr;
    made.wr.next = nullptr;
    if (wr.num_sge != 0)
        made.sge = wr.sg_list[0];
    made.is_signaled = qp.is_sig_all || (wr.send_flags & IBV_SEND_SIGNALED) != 0;
    return made;
}

/// Not by the public function: bind_mw() calls it, too.
int post_sends(ibv_qp *verbs, ibv_send_wr *wrs, ibv_send_wr **bad_wr) noexcept {
    const std::lock_guard guard(lock);
    fake_qp &qp = to_fake_qp(verbs);
    int error = 0;
    for (ibv_send_wr *wr = wrs; wr != nullptr; wr = wr->next) {
        error = check_send(qp, *wr, 0);
        if (error != 0) {
            set_bad_wr(verbs->context, bad_wr, wr);
            break;
        }
        qp.sends.add(make_send(qp, *wr));
    }
    execute_all(); // also those before one that failed
    return error;
}

int post_receives(receive_queue &queue, ibv_context *context, ibv_recv_wr *wrs,
                  ibv_recv_wr **bad_wr) noexcept {
    int error = 0;
    for (ibv_recv_wr *wr = wrs; wr != nullptr; wr = wr->next) {
        if (wr->num_sge > static_cast<int>(MAX_SGE))
            error = EINVAL;
        else if (queue.is_full())
            error = ENOMEM;
        if (error != 0) {
            set_bad_wr(context, bad_wr, wr);
            break;
        }
        queue.add({.wr_id = wr->wr_id,
                   .sge = wr->num_sge != 0 ? wr->sg_list[0] : ibv_sge{},
                   .number = 0});
    }
    execute_all();
    return error;
}

int post_recv(ibv_qp *verbs, ibv_recv_wr *wrs, ibv_recv_wr **bad_wr) noexcept {
    const std::lock_guard guard(lock);
    fake_qp &qp = to_fake_qp(verbs);
    if (qp.state == IBV_QPS_RESET || verbs->srq != nullptr) {
        set_bad_wr(verbs->context, bad_wr, wrs);
        return EINVAL;
    }
    return post_receives(qp.receives, verbs->context, wrs, bad_wr);
}

int post_srq_recv(ibv_srq *verbs, ibv_recv_wr *wrs, ibv_recv_wr **bad_wr) noexcept {
    const std::lock_guard guard(lock);
    return post_receives(to_object<fake_srq>(verbs).receives, verbs->context, wrs, bad_wr);
}

/// By an internal function, as mlx5, or by ibv_post_send(), as rxe.
int bind_mw(ibv_qp *qp, ibv_mw *mw, ibv_mw_bind *mw_bind) noexcept {
    if (mw->type != IBV_MW_TYPE_1)
        return EINVAL;
    ibv_send_wr wr = {}, *bad_wr = nullptr;
    wr.wr_id = mw_bind->wr_id;
    wr.opcode = IBV_WR_BIND_MW;
    wr.send_flags = mw_bind->send_flags;
    wr.bind_mw.mw = mw;
    wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
    wr.bind_mw.bind_info = mw_bind->bind_info;
    const int error = to_fake_context(qp->context).binds_internally
                          ? post_sends(qp, &wr, &bad_wr)
                          : ibv_post_send(qp, &wr, &bad_wr);
    if (error == 0)
        mw->rkey = wr.bind_mw.rkey;
    return error;
}

} // namespace

int check_send(const fake_qp &qp, const ibv_send_wr &wr, std::size_t num_unposted) {
    if (qp.state != IBV_QPS_RTS && qp.state != IBV_QPS_ERR)
        return EINVAL;
    if (wr.num_sge > static_cast<int>(MAX_SGE) || (wr.send_flags & IBV_SEND_INLINE) != 0)
        return EINVAL;
    if (qp.verbs.qp.qp_type == IBV_QPT_UD && wr.wr.ud.ah == nullptr)
        return EINVAL;
    return qp.sends.is_full(num_unposted) ? ENOMEM : 0;
}

void set_post_ops(abi::verbs_context_ops &ops) {
    ops.post_send = post_sends;
    ops.post_recv = post_recv;
    ops.post_srq_recv = post_srq_recv;
    ops.bind_mw = bind_mw;
}

} // namespace fake
