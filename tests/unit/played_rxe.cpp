// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "played_rxe.hpp"

#include "rxe/objects.hpp"

#include <bit>
#include <fcntl.h>

namespace played {

verbs_context *rxe_kernel::open_own(ibv_device *device) {
    return rxe::open(device, fd, nullptr);
}

rxe::place rxe_kernel::make_ring(std::uint32_t entries, std::size_t slot) {
    const auto shift =
        static_cast<std::uint32_t>(std::bit_width(std::max(slot, std::size_t{64}) - 1));
    const std::uint32_t slots = std::bit_ceil(entries + 1);
    const memory &is = make_memory(sizeof(rxe::ring_head) + (std::size_t{slots} << shift));
    rxe::ring_head &head = ring(rings() - 1);
    head.log2_slot = shift;
    head.mask = slots - 1;
    rxe::place where{is.offset, static_cast<std::uint32_t>(is.size), 0};
    if (lie)
        lie(where, head);
    return where;
}

int rxe_kernel::answer_own(const command &to) {
    if ((to.number & extended) != 0)
        return answer_extended(to);
    switch (to.number) {
    case IB_USER_VERBS_CMD_GET_CONTEXT:
        respond(to,
                std::array{static_cast<std::uint32_t>(::open("/dev/null", O_RDONLY | O_CLOEXEC)),
                           std::uint32_t{1}});
        return 0;
    case IB_USER_VERBS_CMD_REG_MR:
        respond(to, std::array{made(to), std::uint32_t{0x11}, std::uint32_t{0x22}});
        return 0;
    case IB_USER_VERBS_CMD_ALLOC_MW:
        respond(to, std::array{made(to), std::uint32_t{0x33}});
        return 0;
    case IB_USER_VERBS_CMD_CREATE_AH: {
        const std::array<std::uint32_t, 2> number{7, 0};
        respond(to, std::array{made(to)}, number);
        return 0;
    }
    case IB_USER_VERBS_CMD_CREATE_CQ: {
        const auto asked = to.as<ib_uverbs_create_cq>();
        const rxe::place where = make_ring(asked.cqe, sizeof(rxe::completion_slot));
        respond(to, std::array{made(to), asked.cqe}, where);
        return 0;
    }
    case IB_USER_VERBS_CMD_RESIZE_CQ: {
        const auto asked = to.as<ib_uverbs_resize_cq>();
        const rxe::place where = make_ring(asked.cqe, sizeof(rxe::completion_slot));
        respond(to, std::array{asked.cqe, std::uint32_t{0}}, where);
        return 0;
    }
    case IB_USER_VERBS_CMD_CREATE_SRQ: {
        const auto asked = to.as<ib_uverbs_create_srq>();
        const rxe::place_of_shared where{
            make_ring(asked.max_wr, sizeof(rxe::receive_slot) + asked.max_sge * sizeof(ibv_sge)), 5,
            0};
        respond(to, std::array{made(to), asked.max_wr, asked.max_sge, std::uint32_t{5}}, where);
        return 0;
    }
    case IB_USER_VERBS_CMD_MODIFY_SRQ: {
        const auto asked = to.as<ib_uverbs_modify_srq>();
        if ((asked.attr_mask & IBV_SRQ_MAX_WR) == 0)
            return 0;
        const rxe::place where =
            make_ring(asked.max_wr, sizeof(rxe::receive_slot) + 2 * sizeof(ibv_sge));
        std::memcpy(reinterpret_cast<void *>(to.as<std::uint64_t>(sizeof asked)), &where,
                    sizeof where);
        return 0;
    }
    case IB_USER_VERBS_CMD_CREATE_QP: {
        const auto asked = to.as<ib_uverbs_create_qp>();
        const std::size_t data =
            std::max<std::size_t>(asked.max_send_sge * sizeof(ibv_sge), asked.max_inline_data);
        rxe::places_of_pair where{};
        if (asked.is_srq == 0)
            where.receive = make_ring(asked.max_recv_wr, sizeof(rxe::receive_slot) +
                                                             asked.max_recv_sge * sizeof(ibv_sge));
        where.send = make_ring(asked.max_send_wr, sizeof(rxe::send_slot) + data);
        const std::array<std::uint32_t, 8> granted{
            made(to),           0x123456,           asked.max_send_wr,     asked.max_recv_wr,
            asked.max_send_sge, asked.max_recv_sge, asked.max_inline_data, 0};
        respond(to, granted, where);
        return 0;
    }
    case IB_USER_VERBS_CMD_POST_SEND:
        respond(to, std::uint32_t{0});
        return 0;
    case IB_USER_VERBS_CMD_MODIFY_QP:
    case IB_USER_VERBS_CMD_REQ_NOTIFY_CQ:
        return 0;
    default:
        return EOPNOTSUPP;
    }
}

int rxe_kernel::answer_extended(const command &to) {
    switch (to.number & ~extended) {
    case IB_USER_VERBS_EX_CMD_CREATE_CQ: {
        const auto asked = to.as<ib_uverbs_ex_create_cq>();
        const rxe::place where = make_ring(asked.cqe, sizeof(rxe::completion_slot));
        respond(to, std::array<std::uint32_t, 4>{made(to), asked.cqe, 0, 16}, where);
        return 0;
    }
    case IB_USER_VERBS_EX_CMD_CREATE_QP: {
        const auto asked = to.as<ib_uverbs_ex_create_qp>();
        const std::size_t data =
            std::max<std::size_t>(asked.max_send_sge * sizeof(ibv_sge), asked.max_inline_data);
        rxe::places_of_pair where{};
        where.receive = make_ring(asked.max_recv_wr,
                                  sizeof(rxe::receive_slot) + asked.max_recv_sge * sizeof(ibv_sge));
        where.send = make_ring(asked.max_send_wr, sizeof(rxe::send_slot) + data);
        const std::array<std::uint32_t, 10> granted{
            made(to),           0x123456,           asked.max_send_wr,    asked.max_recv_wr,
            asked.max_send_sge, asked.max_recv_sge, asked.max_inline_data};
        respond(to, granted, where);
        return 0;
    }
    default:
        return EOPNOTSUPP;
    }
}

} // namespace played
