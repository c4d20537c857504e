// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The start_poll API. start_poll returns with the lock held if it finds a completion; end_poll
// releases the lock.

#include "common/cq_read.hpp"
#include "objects.hpp"

namespace coherdma::provider::siw {
namespace {

int next_poll(ibv_cq_ex *ibcq) noexcept {
    siw_cq &cq = to_siw_cq(ibcq);
    return set_wr_id_and_status(ibcq, poll_one(cq, cq.cur_wc) ? &cq.cur_wc : nullptr);
}

/// Takes the lock, which end_poll releases; keeps it only if there is a completion.
int start_poll(ibv_cq_ex *ibcq, ibv_poll_cq_attr *attr) noexcept {
    if (attr->comp_mask != 0)
        return EINVAL;
    siw_cq &cq = to_siw_cq(ibcq);
    cq.lock.lock();
    const int error = set_wr_id_and_status(ibcq, poll_first(cq, cq.cur_wc) ? &cq.cur_wc : nullptr);
    if (error == 0)
        cq.lock.keep_for_poll();
    else
        cq.lock.unlock();
    return error;
}

void end_poll(ibv_cq_ex *ibcq) noexcept {
    to_siw_cq(ibcq).lock.release_poll();
}

} // namespace

void set_poll_ops(siw_cq &cq) noexcept {
    ibv_cq_ex &ibcq = cq.verbs.cq_ex;
    ibcq.start_poll = start_poll;
    ibcq.next_poll = next_poll;
    ibcq.end_poll = end_poll;
    set_read_ops<siw_cq>(ibcq);
}

} // namespace coherdma::provider::siw
