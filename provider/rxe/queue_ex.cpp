// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Polling a completion queue by parts. The turn is taken from start_poll, if it finds a completion,
// to end_poll, as of every device: what is read in between is the queue's. It is a copy, so the
// ring may be exchanged.

#include "completion.hpp"

#include <cerrno>

namespace coherdma::provider::rxe {
namespace {

int next(ibv_cq_ex *cq) noexcept {
    queue &own = of<queue>(cq);
    if (take(own, &own.current, 1) == 0)
        return ENOENT;
    cq->wr_id = own.current.wr_id;
    cq->status = own.current.status;
    return 0;
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

template <auto member>
auto read(ibv_cq_ex *cq) noexcept {
    return of<queue>(cq).current.*member;
}

std::uint32_t read_slid(ibv_cq_ex *cq) noexcept {
    return of<queue>(cq).current.slid;
}

__be32 read_imm(ibv_cq_ex *cq) noexcept {
    return of<queue>(cq).current.imm_data;
}

} // namespace

void extend(queue &own) noexcept {
    ibv_cq_ex &cq = own.verbs.cq_ex;
    cq.start_poll = start;
    cq.next_poll = next;
    cq.end_poll = end;
    cq.read_opcode = read<&ibv_wc::opcode>;
    cq.read_vendor_err = read<&ibv_wc::vendor_err>;
    cq.read_byte_len = read<&ibv_wc::byte_len>;
    cq.read_imm_data = read_imm;
    cq.read_qp_num = read<&ibv_wc::qp_num>;
    cq.read_src_qp = read<&ibv_wc::src_qp>;
    cq.read_wc_flags = read<&ibv_wc::wc_flags>;
    cq.read_slid = read_slid;
    cq.read_sl = read<&ibv_wc::sl>;
    cq.read_dlid_path_bits = read<&ibv_wc::dlid_path_bits>;
}

} // namespace coherdma::provider::rxe
