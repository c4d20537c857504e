// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The start_poll API. start_poll returns with the lock held if it finds a completion; end_poll
// releases the lock.

#include "common/cq_read.hpp"
#include "cqe.hpp"

namespace coherdma::provider::rxe {
namespace {

int next_poll(ibv_cq_ex *ibcq) noexcept {
    rxe_cq &cq = to_rxe_cq(ibcq);
    return set_wr_id_and_status(ibcq, poll_cqes(cq, &cq.cur_wc, 1) != 0 ? &cq.cur_wc : nullptr);
}

/// Takes the lock, which end_poll releases; keeps it only if there is a completion.
int start_poll(ibv_cq_ex *ibcq, ibv_poll_cq_attr *attr) noexcept {
    if (attr->comp_mask != 0)
        return EINVAL;
    rxe_cq &cq = to_rxe_cq(ibcq);
    cq.lock.lock();
    cq.ring.reset();
    const int error = next_poll(ibcq);
    if (error == 0)
        cq.lock.keep_for_poll();
    else
        cq.lock.unlock();
    return error;
}

void end_poll(ibv_cq_ex *ibcq) noexcept {
    rxe_cq &cq = to_rxe_cq(ibcq);
    cq.ring.publish_consumer();
    cq.lock.release_poll();
}

} // namespace

void set_poll_ops(rxe_cq &cq) noexcept {
    ibv_cq_ex &ibcq = cq.verbs.cq_ex;
    ibcq.start_poll = start_poll;
    ibcq.next_poll = next_poll;
    ibcq.end_poll = end_poll;
    set_read_ops<rxe_cq>(ibcq);
}

} // namespace coherdma::provider::rxe
