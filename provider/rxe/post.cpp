// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Posting requests. What is wrong with a request is found before anything of it is published, and
// the kernel is called once for a list, after the turn: that call may carry out the whole transfer.

#include "request.hpp"

#include <cerrno>

namespace coherdma::provider::rxe {
namespace {

// How many bytes are copied behind the slot; too many: they are more than may be inline.
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

// How many bytes they are.
std::uint64_t put_pieces(void *behind, const ibv_sge *pieces, std::uint32_t count) noexcept {
    auto *into = static_cast<ibv_sge *>(behind);
    std::uint64_t length = 0;
    for (const ibv_sge *const end = pieces + count; pieces != end; ++pieces, ++into) {
        *into = *pieces;
        length += pieces->length;
    }
    return length;
}

// 0, or an errno: then what is in the slot does not matter.
int put_data(send_slot &slot, const pair &own, const ibv_send_wr &request) noexcept {
    std::uint64_t length = 0;
    auto count = static_cast<std::uint32_t>(request.num_sge);
    if ((request.send_flags & IBV_SEND_INLINE) != 0) {
        if ((can_be_inline & bit(request.opcode)) == 0 || request.num_sge < 0)
            return EINVAL;
        length = put_inline(slot, request, own.most_inline);
        count = 0;
    } else {
        if (count > own.most_pieces_sent)
            return EINVAL;
        length = put_pieces(&slot + 1, request.sg_list, count);
    }
    const auto bytes = static_cast<std::uint32_t>(length);
    slot.data = {bytes, bytes, 0, count, 0, 0};
    return length < too_long ? 0 : EINVAL;
}

// Where it goes, if that is not memory. false: nowhere.
bool put_target(send_slot &slot, const ibv_send_wr &request, bool datagram) noexcept {
    if (datagram) {
        const auto &to = request.wr.ud;
        if (to.ah == nullptr)
            return false;
        slot.to.datagram = {to.remote_qpn, to.remote_qkey, 0, 0, of<handle>(to.ah).number};
        return true;
    }
    const std::uint32_t kind = bit(request.opcode);
    if ((kind & atomics) != 0) {
        const auto &to = request.wr.atomic;
        slot.to.atomic = {to.remote_addr, to.compare_add, to.swap, to.rkey, 0};
        slot.remote = to.remote_addr;
    } else if (request.opcode == IBV_WR_BIND_MW) {
        const auto &bind = request.bind_mw;
        if (bind.mw == nullptr)
            return false;
        slot.to.window = window_of(*bind.mw, bind.rkey, bind.bind_info);
    }
    return true;
}

int put(pair &own, const ibv_send_wr &request) noexcept {
    const auto opcode = static_cast<unsigned>(request.opcode);
    if (opcode >= 32 || (own.opcodes >> opcode & 1) == 0)
        return EINVAL;
    if (!own.sends.vacant())
        return ENOMEM;
    auto &slot = *static_cast<send_slot *>(own.sends.slot(own.sends.own));
    static_assert(sizeof(request.imm_data) == sizeof(request.invalidate_rkey), "one or the other");
    slot.id = request.wr_id;
    slot.opcode = opcode;
    slot.flags = request.send_flags & known_flags;
    slot.extra = request.imm_data;
    slot.status = slot.state = slot.counts_as_read = 0;
    constexpr std::uint32_t to_memory = writes | bit(IBV_WR_RDMA_READ);
    if ((to_memory >> opcode & 1) != 0) {
        slot.to.memory.address = slot.remote = request.wr.rdma.remote_addr;
        slot.to.memory.key = request.wr.rdma.rkey;
    } else if (!put_target(slot, request, own.verbs.qp.qp_type == IBV_QPT_UD)) {
        return EINVAL;
    }
    if ((without_data >> opcode & 1) != 0) {
        slot.data = {};
    } else if (const int error = put_data(slot, own, request)) {
        return error;
    }
    own.sends.filled();
    return 0;
}

// Before a pair may send, the kernel refuses to look, but would find and send it later on.
int post_send(ibv_qp *qp, ibv_send_wr *list, ibv_send_wr **bad) noexcept {
    pair &own = of<pair>(qp);
    if (list != nullptr && qp->state < IBV_QPS_RTS) {
        *bad = list;
        return EINVAL;
    }
    int error = 0;
    own.sending.enter();
    for (ibv_send_wr *request = list; request != nullptr; request = request->next) {
        error = put(own, *request);
        if (error != 0) [[unlikely]] {
            *bad = request;
            break;
        }
    }
    const bool published = own.sends.publish();
    own.sending.leave();
    if (published) {
        const int unheard = own.announce();
        if (unheard != 0 && error == 0) [[unlikely]] {
            *bad = list;
            error = unheard;
        }
    }
    probe::post_send(qp->qp_num, error);
    return error;
}

int put_receive(ring &into, std::uint32_t most_pieces, const ibv_recv_wr &request) noexcept {
    const auto count = static_cast<std::uint32_t>(request.num_sge);
    if (count > most_pieces)
        return EINVAL;
    if (!into.vacant())
        return ENOMEM;
    auto &slot = *static_cast<receive_slot *>(into.slot(into.own));
    const std::uint64_t length = put_pieces(&slot + 1, request.sg_list, count);
    const auto bytes = static_cast<std::uint32_t>(length);
    slot.id = request.wr_id;
    slot.data = {bytes, bytes, 0, count, 0, 0};
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
    into.publish();
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
