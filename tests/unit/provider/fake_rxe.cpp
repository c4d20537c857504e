// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "fake_rxe.hpp"

#include "rxe/objects.hpp"

#include <bit>
#include <cstdlib>
#include <fcntl.h>

namespace fake {

const coherdma::abi::verbs_device_ops &rxe_kernel::device_ops() const {
    static const coherdma::abi::verbs_device_ops ops = [] {
        coherdma::abi::verbs_device_ops rxe_ops = {};
        rxe_ops.alloc_context = rxe::alloc_context;
        return rxe_ops;
    }();
    return ops;
}

rxe::mminfo rxe_kernel::make_ring(std::uint32_t min_entries, std::size_t entry_size) {
    const auto shift =
        static_cast<std::uint32_t>(std::bit_width(std::max(entry_size, std::size_t{64}) - 1));
    const std::uint32_t num_entries = std::bit_ceil(min_entries + 1);
    const shared_memory &memory =
        make_memory(sizeof(rxe::rxe_queue_buf) + (std::size_t{num_entries} << shift));
    rxe::rxe_queue_buf &buf = ring(num_rings() - 1);
    buf.log2_elem_size = shift;
    buf.index_mask = num_entries - 1;
    rxe::mminfo mi{memory.offset, static_cast<std::uint32_t>(memory.size), 0};
    if (corrupt)
        corrupt(mi, buf);
    return mi;
}

std::uint32_t rxe_kernel::add_qp_num(std::uint32_t handle) {
    std::erase_if(qp_nums_, [this](const auto &qp) { return objects.count(qp.first) == 0; });
    if (qp_nums_.size() >= num_qp_nums)
        std::abort();
    for (;;) {
        const std::uint32_t number = qp_num + num_qps_added_++ % num_qp_nums;
        if (std::none_of(qp_nums_.begin(), qp_nums_.end(),
                         [&](const auto &qp) { return qp.second == number; }))
            return qp_nums_[handle] = number;
    }
}

int rxe_kernel::answer_driver(const command &cmd) {
    if ((cmd.number & extended) != 0)
        return answer_extended(cmd);
    switch (cmd.number) {
    case IB_USER_VERBS_CMD_GET_CONTEXT:
        respond(cmd,
                std::array{static_cast<std::uint32_t>(::open("/dev/null", O_RDONLY | O_CLOEXEC)),
                           std::uint32_t{1}});
        return 0;
    case IB_USER_VERBS_CMD_REG_MR:
        respond(cmd, std::array{add_object(cmd), mr_lkey, mr_rkey});
        return 0;
    case IB_USER_VERBS_CMD_ALLOC_MW:
        respond(cmd, std::array{add_object(cmd), std::uint32_t{0x33}});
        return 0;
    case IB_USER_VERBS_CMD_CREATE_AH: {
        const std::array<std::uint32_t, 2> ah_num{7, 0};
        respond(cmd, std::array{add_object(cmd)}, ah_num);
        return 0;
    }
    case IB_USER_VERBS_CMD_CREATE_CQ: {
        const auto req = cmd.read<ib_uverbs_create_cq>();
        const rxe::mminfo mi = make_ring(req.cqe, sizeof(rxe::rxe_cqe));
        respond(cmd, std::array{add_object(cmd), req.cqe}, mi);
        return 0;
    }
    case IB_USER_VERBS_CMD_RESIZE_CQ: {
        const auto req = cmd.read<ib_uverbs_resize_cq>();
        const rxe::mminfo mi = make_ring(req.cqe, sizeof(rxe::rxe_cqe));
        respond(cmd, std::array{req.cqe, std::uint32_t{0}}, mi);
        return 0;
    }
    case IB_USER_VERBS_CMD_CREATE_SRQ: {
        const auto req = cmd.read<ib_uverbs_create_srq>();
        const rxe::rxe_create_srq_resp resp{
            make_ring(req.max_wr, sizeof(rxe::rxe_recv_wqe) + req.max_sge * sizeof(ibv_sge)), 5, 0};
        respond(cmd, std::array{add_object(cmd), req.max_wr, req.max_sge, std::uint32_t{5}}, resp);
        return 0;
    }
    case IB_USER_VERBS_CMD_MODIFY_SRQ: {
        const auto req = cmd.read<ib_uverbs_modify_srq>();
        if ((req.attr_mask & IBV_SRQ_MAX_WR) == 0)
            return 0;
        const rxe::mminfo mi =
            make_ring(req.max_wr, sizeof(rxe::rxe_recv_wqe) + 2 * sizeof(ibv_sge));
        std::memcpy(reinterpret_cast<void *>(cmd.read<std::uint64_t>(sizeof req)), &mi, sizeof mi);
        return 0;
    }
    case IB_USER_VERBS_CMD_CREATE_QP: {
        const auto req = cmd.read<ib_uverbs_create_qp>();
        const std::size_t sge_or_inline_size =
            std::max<std::size_t>(req.max_send_sge * sizeof(ibv_sge), req.max_inline_data);
        rxe::rxe_create_qp_resp resp{};
        if (req.is_srq == 0)
            resp.rq_mi = make_ring(req.max_recv_wr,
                                   sizeof(rxe::rxe_recv_wqe) + req.max_recv_sge * sizeof(ibv_sge));
        resp.sq_mi = make_ring(req.max_send_wr, sizeof(rxe::rxe_send_wqe) + sge_or_inline_size);
        const std::uint32_t handle = add_object(cmd);
        const std::array<std::uint32_t, 8> core_resp{
            handle,           add_qp_num(handle), req.max_send_wr,     req.max_recv_wr,
            req.max_send_sge, req.max_recv_sge,   req.max_inline_data, 0};
        respond(cmd, core_resp, resp);
        return 0;
    }
    case IB_USER_VERBS_CMD_QUERY_QP: {
        ib_uverbs_query_qp_resp resp;
        std::memset(&resp, 0, sizeof resp);
        resp.qp_state = static_cast<std::uint8_t>(state);
        respond(cmd, resp);
        return 0;
    }
    case IB_USER_VERBS_CMD_POST_SEND:
        respond(cmd, std::uint32_t{0});
        return 0;
    case IB_USER_VERBS_CMD_MODIFY_QP:
    case IB_USER_VERBS_CMD_REQ_NOTIFY_CQ:
        return 0;
    default:
        return EOPNOTSUPP;
    }
}

int rxe_kernel::answer_extended(const command &cmd) {
    switch (cmd.number & ~extended) {
    case IB_USER_VERBS_CMD_QUERY_DEVICE: {
        ib_uverbs_ex_query_device_resp resp{};
        resp.response_length = sizeof resp;
        resp.device_cap_flags_ex = device_cap_flags_ex;
        respond(cmd, resp);
        return 0;
    }
    case IB_USER_VERBS_EX_CMD_CREATE_CQ: {
        const auto req = cmd.read<ib_uverbs_ex_create_cq>();
        const rxe::mminfo mi = make_ring(req.cqe, sizeof(rxe::rxe_cqe));
        respond(cmd, std::array<std::uint32_t, 4>{add_object(cmd), req.cqe, 0, 16}, mi);
        return 0;
    }
    case IB_USER_VERBS_EX_CMD_CREATE_QP: {
        const auto req = cmd.read<ib_uverbs_ex_create_qp>();
        const std::size_t sge_or_inline_size =
            std::max<std::size_t>(req.max_send_sge * sizeof(ibv_sge), req.max_inline_data);
        rxe::rxe_create_qp_resp resp{};
        resp.rq_mi = make_ring(req.max_recv_wr,
                               sizeof(rxe::rxe_recv_wqe) + req.max_recv_sge * sizeof(ibv_sge));
        resp.sq_mi = make_ring(req.max_send_wr, sizeof(rxe::rxe_send_wqe) + sge_or_inline_size);
        const std::uint32_t handle = add_object(cmd);
        const std::array<std::uint32_t, 10> core_resp{
            handle,           add_qp_num(handle), req.max_send_wr,    req.max_recv_wr,
            req.max_send_sge, req.max_recv_sge,   req.max_inline_data};
        respond(cmd, core_resp, resp);
        return 0;
    }
    default:
        return EOPNOTSUPP;
    }
}

} // namespace fake
