// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Posting requests. What is wrong with a request is found before anything of it is published, and
// the kernel is called once for a list, after the turn: that call may carry out the whole transfer.

#include "request.hpp"

#include <cerrno>

namespace coherdma::provider::rxe {
namespace {

// How many bytes were copied behind the slot; too many: they are more than may be inline.
std::uint64_t put_inline(send_slot &slot, const ibv_send_wr &request, std::uint32_t most) noexcept {
    unsigned char *behind = behind_of(slot);
    std::uint64_t length = 0;
    for (int each = 0; each < request.num_sge; ++each) {
        const ibv_sge &piece = request.sg_list[each];
        length += piece.length;
        if (length > most)
            return too_long;
        behind = copied(behind, reinterpret_cast<const void *>(piece.addr), piece.length);
    }
    return length;
}

// There are no more than fit.
std::uint64_t put_pieces(send_slot &slot, const ibv_send_wr &request) noexcept {
    auto *const behind = reinterpret_cast<ibv_sge *>(&slot + 1);
    std::uint64_t length = 0;
    for (int each = 0; each < request.num_sge; ++each) {
        behind[each] = request.sg_list[each];
        length += request.sg_list[each].length;
    }
    slot.data.pieces = static_cast<std::uint32_t>(request.num_sge);
    return length;
}

// 0, or an errno: then what is in the slot does not matter.
int put_data(send_slot &slot, const pair &own, const ibv_send_wr &request) noexcept {
    slot.data = {};
    if ((without_data & bit(request.opcode)) != 0)
        return 0;
    std::uint64_t length;
    if ((request.send_flags & IBV_SEND_INLINE) != 0) {
        if ((can_be_inline & bit(request.opcode)) == 0 || request.num_sge < 0)
            return EINVAL;
        length = put_inline(slot, request, own.most_inline);
    } else {
        if (static_cast<std::uint32_t>(request.num_sge) > own.most_pieces_sent)
            return EINVAL;
        length = put_pieces(slot, request);
    }
    slot.data.length = slot.data.left = static_cast<std::uint32_t>(length);
    return length < too_long ? 0 : EINVAL;
}

// Where it goes.
void put_target(send_slot &slot, const ibv_send_wr &request) noexcept {
    const std::uint32_t kind = bit(request.opcode);
    if ((kind & (writes | bit(IBV_WR_RDMA_READ))) != 0) {
        slot.to.memory = {request.wr.rdma.remote_addr, request.wr.rdma.rkey, 0};
        slot.remote = request.wr.rdma.remote_addr;
    } else if ((kind & atomics) != 0) {
        const auto &to = request.wr.atomic;
        slot.to.atomic = {to.remote_addr, to.compare_add, to.swap, to.rkey, 0};
        slot.remote = to.remote_addr;
    } else if (request.opcode == IBV_WR_BIND_MW) {
        const auto &bind = request.bind_mw;
        slot.to.window = window_of(*bind.mw, bind.rkey, bind.bind_info);
    }
}

int put(pair &own, const ibv_send_wr &request) noexcept {
    if (static_cast<unsigned>(request.opcode) >= 32 || (own.opcodes & bit(request.opcode)) == 0)
        return EINVAL;
    void *const vacant = own.sends.vacant();
    if (vacant == nullptr)
        return ENOMEM;
    auto &slot = *static_cast<send_slot *>(vacant);
    static_assert(sizeof(request.imm_data) == sizeof(request.invalidate_rkey), "one or the other");
    slot.id = request.wr_id;
    slot.opcode = request.opcode;
    slot.flags = request.send_flags & known_flags;
    slot.extra = request.imm_data;
    slot.status = slot.state = slot.counts_as_read = 0;
    if (own.verbs.qp.qp_type == IBV_QPT_UD) {
        const auto &to = request.wr.ud;
        slot.to.datagram = {to.remote_qpn, to.remote_qkey, 0, 0, of<handle>(to.ah).number};
    } else {
        put_target(slot, request);
    }
    const int error = put_data(slot, own, request);
    if (error == 0)
        own.sends.filled();
    return error;
}

// Before a pair may send, the kernel refuses to look, but would find and send it later on.
int post_send(ibv_qp *qp, ibv_send_wr *list, ibv_send_wr **bad) noexcept {
    pair &own = of<pair>(qp);
    if (list != nullptr && qp->state < IBV_QPS_RTS) {
        *bad = list;
        return EINVAL;
    }
    int error = 0;
    bool published;
    ibv_send_wr *request = list;
    {
        const taking_turn mine(own.sending);
        for (; request != nullptr; request = request->next) {
            error = put(own, *request);
            if (error != 0)
                break;
        }
        published = own.sends.publish(own.sends.head->producer);
    }
    const int unheard = published ? own.announce() : 0;
    if (error != 0)
        *bad = request;
    else if (unheard != 0)
        *bad = list;
    const int all = error != 0 ? error : unheard;
    probe::post_send(qp->qp_num, all);
    return all;
}

int put_receive(ring &into, std::uint32_t most_pieces, const ibv_recv_wr &request) noexcept {
    if (static_cast<std::uint32_t>(request.num_sge) > most_pieces)
        return EINVAL;
    void *const vacant = into.vacant();
    if (vacant == nullptr)
        return ENOMEM;
    auto &slot = *static_cast<receive_slot *>(vacant);
    auto *const behind = reinterpret_cast<ibv_sge *>(&slot + 1);
    std::uint64_t length = 0;
    for (int each = 0; each < request.num_sge; ++each) {
        behind[each] = request.sg_list[each];
        length += request.sg_list[each].length;
    }
    slot.id = request.wr_id;
    slot.data = {};
    slot.data.length = slot.data.left = static_cast<std::uint32_t>(length);
    slot.data.pieces = static_cast<std::uint32_t>(request.num_sge);
    if (length >= too_long)
        return EINVAL;
    into.filled();
    return 0;
}

// The kernel flushes receives when a pair breaks, and does not look again.
int post_receive(ibv_qp *qp, ibv_recv_wr *list, ibv_recv_wr **bad) noexcept {
    pair &own = of<pair>(qp);
    if (own.receives.head == nullptr || qp->state == IBV_QPS_RESET) {
        *bad = list;
        return EINVAL;
    }
    const int error =
        put_receives(own.receives, own.receiving, own.most_pieces_received, list, bad);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (std::atomic_ref(own.broken).load(std::memory_order_relaxed))
        break_pair(own);
    probe::post_receive(qp->qp_num, error);
    return error;
}

} // namespace

int pair::announce() noexcept {
    return sending.alone() ? ring_bell(verbs.qp, RDMA_DRIVER_RXE)
                           : ringing.ring(verbs.qp, RDMA_DRIVER_RXE);
}

int put_receives(ring &into, turn &at, std::uint32_t most_pieces, ibv_recv_wr *list,
                 ibv_recv_wr **bad) noexcept {
    const taking_turn mine(at);
    int error = 0;
    for (ibv_recv_wr *request = list; request != nullptr; request = request->next) {
        error = put_receive(into, most_pieces, *request);
        if (error != 0) {
            *bad = request;
            break;
        }
    }
    into.publish(into.head->producer);
    return error;
}

std::uint32_t opcodes_of(ibv_qp_type type) noexcept {
    switch (type) {
    case IBV_QPT_RC:
        return sends | writes | atomics | without_data | bit(IBV_WR_RDMA_READ) |
               bit(IBV_WR_SEND_WITH_INV);
    case IBV_QPT_UC:
        return sends | writes | bit(IBV_WR_BIND_MW) | bit(IBV_WR_SEND_WITH_INV);
    case IBV_QPT_UD:
        return sends;
    default:
        return 0;
    }
}

void fill_post(abi::operations &able) noexcept {
    able.post_send = post_send;
    able.post_recv = post_receive;
}

} // namespace coherdma::provider::rxe
