// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Polling a completion queue by parts. The turn is taken from start_poll, if it finds a completion,
// to end_poll, as of every device: what is read in between is the queue's. It is a copy, so the
// ring may be exchanged.

#include "common/reading.hpp"
#include "completion.hpp"

namespace coherdma::provider::rxe {
namespace {

int next(ibv_cq_ex *cq) noexcept {
    queue &own = of<queue>(cq);
    return show(cq, take(own, &own.current, 1) != 0 ? &own.current : nullptr);
}

int start(ibv_cq_ex *cq, ibv_poll_cq_attr *how) noexcept {
    if (how->comp_mask != 0)
        return EINVAL;
    queue &own = of<queue>(cq);
    own.polling.enter();
    const int error = next(cq);
    if (error != 0)
        own.polling.leave();
    return error;
}

void end(ibv_cq_ex *cq) noexcept {
    queue &own = of<queue>(cq);
    own.completions.give_back();
    own.polling.leave();
}

} // namespace

void extend(queue &own) noexcept {
    ibv_cq_ex &cq = own.verbs.cq_ex;
    cq.start_poll = start;
    cq.next_poll = next;
    cq.end_poll = end;
    offer_reading<queue>(cq);
}

} // namespace coherdma::provider::rxe
