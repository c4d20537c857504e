// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Posting requests. The kernel looks at a ring only when it is called, or when it has more to do
// anyway; what it cannot do stops the ring for good, so everything is checked here before.

#include "request.hpp"

#include <cerrno>
#include <sched.h>

namespace coherdma::provider::siw {
namespace {

constexpr std::uint8_t no_opcode = 0xff;

std::uint8_t opcode_of(unsigned opcode) noexcept {
    switch (opcode) {
    case IBV_WR_RDMA_WRITE:
        return SIW_OP_WRITE;
    case IBV_WR_RDMA_READ:
        return SIW_OP_READ;
    case IBV_WR_SEND:
        return SIW_OP_SEND;
    case IBV_WR_SEND_WITH_INV:
        return SIW_OP_SEND_REMOTE_INV;
    default:
        return no_opcode;
    }
}

int put_inline(const pair &own, siw_sqe &slot, const ibv_send_wr &request) noexcept {
    unsigned char *room = inline_room(slot);
    std::uint32_t left = own.most_inline;
    for (int each = 0; each < request.num_sge; ++each) {
        const ibv_sge &piece = request.sg_list[each];
        if (piece.length > left)
            return EINVAL;
        if (piece.length != 0)
            std::memcpy(room, reinterpret_cast<const void *>(piece.addr), piece.length);
        room += piece.length;
        left -= piece.length;
    }
    set_inline_length(slot, own.most_inline - left);
    return 0;
}

int put(pair &own, std::uint32_t number, const ibv_send_wr &request) noexcept {
    const std::uint8_t opcode = opcode_of(request.opcode);
    if (opcode == no_opcode || request.num_sge < 0)
        return EINVAL;
    const bool inlined = (request.send_flags & IBV_SEND_INLINE) != 0;
    const auto pieces = static_cast<std::size_t>(request.num_sge);
    if (inlined ? opcode != SIW_OP_SEND && opcode != SIW_OP_WRITE
                : !possible(own, opcode, request.sg_list, pieces))
        return EINVAL;
    if (opcode == SIW_OP_READ && !may_read(own))
        return EINVAL;
    siw::request *const vacant = own.sends.ring.vacant(number);
    if (vacant == nullptr)
        return ENOMEM;
    siw_sqe &slot = sqe(*vacant);
    begin(own, number, request.wr_id, opcode, request.send_flags);
    if (opcode == SIW_OP_SEND_REMOTE_INV) {
        slot.rkey = request.invalidate_rkey;
    } else if (opcode != SIW_OP_SEND) {
        slot.rkey = request.wr.rdma.rkey;
        slot.raddr = request.wr.rdma.remote_addr;
    }
    if (inlined)
        return put_inline(own, slot, request);
    set_pieces(slot, request.sg_list, pieces);
    return 0;
}

int post_send(ibv_qp *qp, ibv_send_wr *list, ibv_send_wr **bad) noexcept {
    pair &own = of<pair>(qp);
    submission all = {own};
    int error = 0, refused;
    ibv_send_wr *each = list;
    {
        const taking_turn mine(own.sending);
        std::uint32_t end = own.sends.ring.own;
        for (; each != nullptr; each = each->next) {
            error = put(own, end, *each);
            if (error != 0)
                break;
            ++end;
        }
        refused = all.with_turn(end);
    }
    all.without_turn();
    if (refused != 0)
        *bad = list;
    else if (error != 0)
        *bad = each;
    const int whole = refused != 0 ? refused : error;
    probe::post_send(qp->qp_num, whole);
    return whole;
}

int put_receive(requests &into, std::uint32_t number, std::uint32_t most_pieces,
                const ibv_recv_wr &wanted) noexcept {
    if (wanted.num_sge < 0 || static_cast<std::uint32_t>(wanted.num_sge) > most_pieces)
        return EINVAL;
    siw::request *const vacant = into.vacant(number);
    if (vacant == nullptr)
        return ENOMEM;
    auto &slot = reinterpret_cast<siw_rqe &>(*vacant);
    slot.id = wanted.wr_id;
    slot.num_sge = static_cast<std::uint8_t>(wanted.num_sge);
    if (wanted.num_sge != 0)
        std::memcpy(slot.sge, wanted.sg_list, slot.num_sge * sizeof(ibv_sge));
    give(*vacant, SIW_WQE_VALID);
    into.given_until(number + 1);
    return 0;
}

int post_receive(ibv_qp *qp, ibv_recv_wr *list, ibv_recv_wr **bad) noexcept {
    pair &own = of<pair>(qp);
    if (own.receives.ring.at.memory == nullptr) {
        *bad = list;
        return EINVAL;
    }
    const int error =
        put_receives(own.receives.ring, own.receiving, own.most_pieces_received, list, bad);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (std::atomic_ref(own.broken).load(std::memory_order_relaxed))
        wake(of<queue>(qp->recv_cq), qp->pd);
    probe::post_receive(qp->qp_num, error);
    return error;
}

} // namespace

// By the kernel's name for it, the depth of this side's reads is the peer's.
bool may_read(pair &own) noexcept {
    if (own.reading)
        return true;
    ibv_qp_attr attributes = {};
    ibv_qp_init_attr initial = {};
    const int error = ibv_query_qp(&own.verbs.qp, &attributes, IBV_QP_MAX_DEST_RD_ATOMIC, &initial);
    own.reading = error != 0 || attributes.max_dest_rd_atomic != 0;
    return own.reading;
}

// A pair that was never connected refuses: then nothing of it may be left. It is asked with the
// turn, so that nobody else's requests are behind. Later on the kernel is called only if it has
// already taken what was before the first new one: else it will come to that and then to these.
// Whether it has is looked at after they are given to it, and it does it the other way round.
int submission::with_turn(std::uint32_t end) noexcept {
    requests &ring = own.sends.ring;
    first = ring.own;
    if (first == end)
        return 0;
    for (std::uint32_t number = first; number != end; ++number) {
        request &slot = ring.slot(number);
        const std::uint16_t flags = waiting_flags(slot.opcode);
        slot.opcode &= opcode_mask;
        give(slot, flags | SIW_WQE_VALID);
    }
    ring.given_until(end);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (!own.heard && !std::atomic_ref(own.broken).load(std::memory_order_relaxed)) {
        if (const int error = ring_bell(own.verbs.qp, RDMA_DRIVER_SIW)) {
            for (std::uint32_t number = first; number != end; ++number)
                give(ring.slot(number), 0);
            ring.given_until(first);
            return error == ENOTCONN ? EINVAL : error;
        }
        own.heard = true;
        suspect(own, first);
        return 0;
    }
    unheard = end - first > ring.at.mask || (flags_of(ring.slot(first - 1)) & SIW_WQE_VALID) == 0;
    return 0;
}

// A kernel that is about to change the state also refuses, for that moment. One that goes on
// refusing has closed the connection.
void submission::without_turn() noexcept {
    if (std::atomic_ref(own.broken).load(std::memory_order_relaxed)) {
        wake(of<queue>(own.verbs.qp.send_cq), own.verbs.qp.pd);
        return;
    }
    for (int times = 0; unheard; ++times) {
        const int error = own.sending.alone() ? ring_bell(own.verbs.qp, RDMA_DRIVER_SIW)
                                              : own.ringing.ring(own.verbs.qp, RDMA_DRIVER_SIW);
        if (error == 0)
            return suspect(own, first);
        if (error != ENOTCONN || times == 3)
            return break_and_wake(own);
        sched_yield();
    }
}

int put_receives(requests &into, turn &at, std::uint32_t most_pieces, ibv_recv_wr *list,
                 ibv_recv_wr **bad) noexcept {
    const taking_turn mine(at);
    for (ibv_recv_wr *each = list; each != nullptr; each = each->next) {
        if (const int error = put_receive(into, into.own, most_pieces, *each)) {
            *bad = each;
            return error;
        }
    }
    return 0;
}

void fill_post(abi::operations &able) noexcept {
    able.post_send = post_send;
    able.post_recv = post_receive;
}

} // namespace coherdma::provider::siw
