// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The ibv_wc_read_* functions. They read cur_wc, the CQ's copy of the current completion.
#pragma once

#include "objects.hpp"

#include <cerrno>
#include <cstdint>

namespace coherdma::provider {

/// Sets the CQ's wr_id and status from cur_wc. Returns ENOENT if cur_wc is nullptr.
inline int set_wr_id_and_status(ibv_cq_ex *ibcq, const ibv_wc *cur_wc) noexcept {
    if (cur_wc == nullptr)
        return ENOENT;
    ibcq->wr_id = cur_wc->wr_id;
    ibcq->status = cur_wc->status;
    return 0;
}

/// Sets the ibv_wc_read_* functions of a CQ, which read its cur_wc.
template <class driver_cq>
void set_read_ops(ibv_cq_ex &cq) noexcept {
    cq.read_opcode = [](ibv_cq_ex *ibcq) {
        return container_of<driver_cq>(ibcq).cur_wc.opcode;
    };
    cq.read_vendor_err = [](ibv_cq_ex *ibcq) {
        return container_of<driver_cq>(ibcq).cur_wc.vendor_err;
    };
    cq.read_byte_len = [](ibv_cq_ex *ibcq) {
        return container_of<driver_cq>(ibcq).cur_wc.byte_len;
    };
    cq.read_imm_data = [](ibv_cq_ex *ibcq) {
        return container_of<driver_cq>(ibcq).cur_wc.imm_data;
    };
    cq.read_qp_num = [](ibv_cq_ex *ibcq) {
        return container_of<driver_cq>(ibcq).cur_wc.qp_num;
    };
    cq.read_src_qp = [](ibv_cq_ex *ibcq) {
        return container_of<driver_cq>(ibcq).cur_wc.src_qp;
    };
    cq.read_wc_flags = [](ibv_cq_ex *ibcq) {
        return container_of<driver_cq>(ibcq).cur_wc.wc_flags;
    };
    cq.read_slid = [](ibv_cq_ex *ibcq) {
        return std::uint32_t{container_of<driver_cq>(ibcq).cur_wc.slid};
    };
    cq.read_sl = [](ibv_cq_ex *ibcq) {
        return container_of<driver_cq>(ibcq).cur_wc.sl;
    };
    cq.read_dlid_path_bits = [](ibv_cq_ex *ibcq) {
        return container_of<driver_cq>(ibcq).cur_wc.dlid_path_bits;
    };
}

} // namespace coherdma::provider
