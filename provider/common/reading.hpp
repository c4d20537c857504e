// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What a program reads of a completion that it polls by parts: a copy, which the queue keeps from
// start_poll to end_poll as `current`.
#pragma once

#include "objects.hpp"

#include <cerrno>
#include <cstdint>

namespace coherdma::provider {

/// Shows a completion, or that there is none.
inline int show(ibv_cq_ex *cq, const ibv_wc *current) noexcept {
    if (current == nullptr)
        return ENOENT;
    cq->wr_id = current->wr_id;
    cq->status = current->status;
    return 0;
}

template <class queue>
void offer_reading(ibv_cq_ex &cq) noexcept {
    cq.read_opcode = [](ibv_cq_ex *of_queue) {
        return of<queue>(of_queue).current.opcode;
    };
    cq.read_vendor_err = [](ibv_cq_ex *of_queue) {
        return of<queue>(of_queue).current.vendor_err;
    };
    cq.read_byte_len = [](ibv_cq_ex *of_queue) {
        return of<queue>(of_queue).current.byte_len;
    };
    cq.read_imm_data = [](ibv_cq_ex *of_queue) {
        return of<queue>(of_queue).current.imm_data;
    };
    cq.read_qp_num = [](ibv_cq_ex *of_queue) {
        return of<queue>(of_queue).current.qp_num;
    };
    cq.read_src_qp = [](ibv_cq_ex *of_queue) {
        return of<queue>(of_queue).current.src_qp;
    };
    cq.read_wc_flags = [](ibv_cq_ex *of_queue) {
        return of<queue>(of_queue).current.wc_flags;
    };
    cq.read_slid = [](ibv_cq_ex *of_queue) {
        return std::uint32_t{of<queue>(of_queue).current.slid};
    };
    cq.read_sl = [](ibv_cq_ex *of_queue) {
        return of<queue>(of_queue).current.sl;
    };
    cq.read_dlid_path_bits = [](ibv_cq_ex *of_queue) {
        return of<queue>(of_queue).current.dlid_path_bits;
    };
}

} // namespace coherdma::provider
