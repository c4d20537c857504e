// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "common/create.hpp"
#include "objects.hpp"

#include <cerrno>

namespace coherdma::provider::siw {
namespace {

int destroy_srq(ibv_srq *ibsrq) noexcept {
    if (const int error = libibverbs().ibv_cmd_destroy_srq(ibsrq))
        return error;
    siw_srq &srq = to_siw_srq(ibsrq);
    srq.ring.mem.unmap();
    std::free(&srq);
    return 0;
}

/// Maps the ring of an SRQ that the kernel created; if that fails, has the kernel destroy the SRQ.
ibv_srq *init_srq_or_destroy(calloc_ptr<siw_srq> &srq, ibv_pd *pd, const siw_uresp_create_srq &resp,
                             ibv_srq_attr &attr) noexcept {
    srq->lock.init(is_single_threaded(pd));
    srq->ring.wqe_size = sizeof(siw_rqe);
    srq->max_sge = attr.max_sge;
    if (const int error =
            srq->ring.mem.map(pd->context->cmd_fd, resp.srq_key, resp.num_rqe, sizeof(siw_rqe))) {
        srq->verbs.srq.context = pd->context;
        libibverbs().ibv_cmd_destroy_srq(&srq->verbs.srq);
        return fail_with(error);
    }
    attr.max_wr = resp.num_rqe;
    return &srq.release()->verbs.srq;
}

// A new max_wr is refused here: the kernel would accept and ignore it.
int modify_srq(ibv_srq *ibsrq, ibv_srq_attr *attr, int attr_mask) noexcept {
    if ((attr_mask & IBV_SRQ_MAX_WR) != 0)
        return EOPNOTSUPP;
    abi::message<abi::command::modify_srq> command = {};
    return libibverbs().ibv_cmd_modify_srq(ibsrq, attr, attr_mask, &command, command.size);
}

int post_srq_recv(ibv_srq *ibsrq, ibv_recv_wr *wr, ibv_recv_wr **bad_wr) noexcept {
    siw_srq &srq = to_siw_srq(ibsrq);
    return post_recvs(srq.ring, srq.lock, srq.max_sge, wr, bad_wr);
}

} // namespace

void fill_srq_ops(abi::verbs_context_ops &ops) noexcept {
    ops.create_srq = create_srq<siw_srq, siw_uresp_create_srq, init_srq_or_destroy>;
    ops.create_srq_ex = create_srq_ex<siw_srq, siw_uresp_create_srq, init_srq_or_destroy>;
    ops.modify_srq = modify_srq;
    ops.query_srq = query_srq;
    ops.destroy_srq = destroy_srq;
    ops.post_srq_recv = post_srq_recv;
}

} // namespace coherdma::provider::siw
