// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "fake_siw.hpp"

#include "siw/objects.hpp"

#include <bit>
#include <cstdlib>
#include <fcntl.h>

namespace fake {

const coherdma::abi::verbs_device_ops &siw_kernel::device_ops() const {
    static const coherdma::abi::verbs_device_ops ops = [] {
        coherdma::abi::verbs_device_ops siw_ops = {};
        siw_ops.alloc_context = coherdma::provider::siw::alloc_context;
        return siw_ops;
    }();
    return ops;
}

// A mapping must cover exactly one ring.
int siw_kernel::check_mapping(std::uint64_t offset, std::size_t bytes) {
    for (std::size_t i = 0; i < num_rings(); ++i)
        if (ring_memory(i).offset == offset)
            return (bytes + page_size - 1) / page_size * page_size == ring_size(i) ? 0 : EINVAL;
    return EINVAL;
}

std::uint64_t siw_kernel::make_ring(std::uint32_t &entries, std::size_t entry_size,
                                    std::size_t trailer_size) {
    entries = std::bit_ceil(entries);
    num_entries_.push_back(entries);
    std::uint64_t key = make_memory(entries * entry_size + trailer_size).offset;
    if (corrupt)
        corrupt(key, entries);
    return key;
}

std::uint32_t siw_kernel::lowest_free_qp_num() {
    std::erase_if(qp_nums_, [this](const auto &qp) { return objects.count(qp.first) == 0; });
    std::uint32_t number = 0x13;
    const auto is_used = [&](const auto &qp) {
        return qp.second == number;
    };
    while (std::any_of(qp_nums_.begin(), qp_nums_.end(), is_used))
        ++number;
    return number;
}

siw_uresp_create_qp siw_kernel::add_qp(std::uint32_t handle, std::uint32_t max_send_wr,
                                       std::uint32_t max_recv_wr) {
    siw_uresp_create_qp resp{};
    resp.qp_id = qp_nums_[handle] = lowest_free_qp_num();
    resp.num_sqe = max_send_wr;
    resp.sq_key = make_ring(resp.num_sqe, sizeof(siw_sqe));
    resp.num_rqe = max_recv_wr;
    resp.rq_key = max_recv_wr != 0 ? make_ring(resp.num_rqe, sizeof(siw_rqe)) : SIW_INVAL_UOBJ_KEY;
    return resp;
}

void siw_kernel::add_cqe(std::size_t ring_index, siw_cqe cqe) {
    siw_cqe &written = next_cqe(ring_index);
    if (written.flags != 0)
        std::abort();
    cqe.flags |= SIW_WQE_VALID;
    written = cqe;
}

int siw_kernel::answer_driver(const command &cmd) {
    switch (cmd.number) {
    case IB_USER_VERBS_CMD_GET_CONTEXT: {
        const auto events = static_cast<std::uint32_t>(::open("/dev/null", O_RDONLY | O_CLOEXEC));
        respond(cmd, std::array{events, std::uint32_t{1}}, siw_uresp_alloc_ctx{3, 0});
        return 0;
    }
    case IB_USER_VERBS_CMD_REG_MR: {
        const std::uint32_t stag =
            ++last_stag_index_ << 8U | cmd.read<siw_ureq_reg_mr>(sizeof(ib_uverbs_reg_mr)).stag_key;
        respond(cmd, std::array{add_object(cmd), stag, stag}, siw_uresp_reg_mr{stag, 0});
        return 0;
    }
    case IB_USER_VERBS_CMD_CREATE_CQ: {
        siw_uresp_create_cq resp{};
        resp.num_cqe = cmd.read<ib_uverbs_create_cq>().cqe;
        resp.cq_key = make_ring(resp.num_cqe, sizeof(siw_cqe), sizeof(siw_cq_ctrl));
        respond(cmd, std::array{add_object(cmd), resp.num_cqe}, resp);
        return 0;
    }
    case IB_USER_VERBS_CMD_CREATE_SRQ: {
        const auto req = cmd.read<ib_uverbs_create_srq>();
        siw_uresp_create_srq resp{};
        resp.num_rqe = req.max_wr;
        resp.srq_key = make_ring(resp.num_rqe, sizeof(siw_rqe));
        respond(cmd, std::array{add_object(cmd), req.max_wr, req.max_sge, std::uint32_t{0}}, resp);
        return 0;
    }
    case IB_USER_VERBS_CMD_CREATE_QP: {
        const auto req = cmd.read<ib_uverbs_create_qp>();
        const std::uint32_t handle = add_object(cmd);
        const auto resp = add_qp(handle, req.max_send_wr, req.is_srq != 0 ? 0 : req.max_recv_wr);
        const std::array<std::uint32_t, 8> core_resp{
            handle,           resp.qp_id,       req.max_send_wr,     req.max_recv_wr,
            req.max_send_sge, req.max_recv_sge, req.max_inline_data, 0};
        respond(cmd, core_resp, resp);
        return 0;
    }
    case IB_USER_VERBS_CMD_CREATE_QP | extended: {
        const auto req = cmd.read<ib_uverbs_ex_create_qp>();
        const std::uint32_t handle = add_object(cmd);
        const auto resp = add_qp(handle, req.max_send_wr, req.max_recv_wr);
        const std::array<std::uint32_t, 10> core_resp{
            handle,           resp.qp_id,       req.max_send_wr,    req.max_recv_wr,
            req.max_send_sge, req.max_recv_sge, req.max_inline_data};
        respond(cmd, core_resp, resp);
        return 0;
    }
    case IB_USER_VERBS_CMD_QUERY_QP: {
        ib_uverbs_query_qp_resp resp;
        std::memset(&resp, 0, sizeof resp);
        resp.qp_state = static_cast<std::uint8_t>(state);
        resp.max_rd_atomic = max_rd_atomic;
        resp.max_dest_rd_atomic = max_dest_rd_atomic;
        respond(cmd, resp);
        if (on_query_qp)
            on_query_qp();
        return 0;
    }
    case IB_USER_VERBS_CMD_MODIFY_QP:
        if (on_modify_qp)
            on_modify_qp();
        return 0;
    case IB_USER_VERBS_CMD_POST_SEND:
        respond(cmd, std::uint32_t{0});
        return on_doorbell ? on_doorbell(cmd.read<ib_uverbs_post_send>().qp_handle) : 0;
    default:
        return EOPNOTSUPP;
    }
}

} // namespace fake
