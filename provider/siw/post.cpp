// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Posting requests. The kernel looks at a ring only when it is called, or when it has more to do
// anyway; what it cannot do stops the ring for good, so everything is checked here before.

#include "request.hpp"

#include <array>
#include <cerrno>
#include <sched.h>

namespace coherdma::provider::siw {
namespace {

constexpr std::uint8_t none = 0xff;
constexpr auto opcodes = [] {
    std::array<std::uint8_t, IBV_WR_SEND_WITH_INV + 1> all = {};
    all.fill(none);
    all[IBV_WR_RDMA_WRITE] = SIW_OP_WRITE;
    all[IBV_WR_RDMA_READ] = SIW_OP_READ;
    all[IBV_WR_SEND] = SIW_OP_SEND;
    all[IBV_WR_SEND_WITH_INV] = SIW_OP_SEND_REMOTE_INV;
    return all;
}();

// Whether they are not too long.
bool put_inline(const pair &own, siw_sqe &slot, const ibv_send_wr &request,
                unsigned &flags) noexcept {
    unsigned char *room = inline_room(slot);
    std::uint32_t left = own.most_inline;
    for (int each = 0; each < request.num_sge; ++each) {
        const ibv_sge &piece = request.sg_list[each];
        if (piece.length > left)
            return false;
        if (piece.length != 0)
            std::memcpy(room, reinterpret_cast<const void *>(piece.addr), piece.length);
        room += piece.length;
        left -= piece.length;
    }
    flags |= set_inline_length(slot, own.most_inline - left);
    return true;
}

int put(pair &own, std::uint32_t number, const ibv_send_wr &request) noexcept {
    const auto verb = static_cast<unsigned>(request.opcode);
    if (verb >= opcodes.size() || opcodes[verb] == none || request.num_sge < 0)
        return EINVAL;
    const std::uint8_t opcode = opcodes[verb];
    siw::request *const vacant = own.sends.ring.vacant(number);
    if (vacant == nullptr)
        return ENOMEM;
    siw_sqe &slot = sqe(*vacant);
    unsigned flags = flags_for(own, number, opcode, request.send_flags) | SIW_WQE_VALID;
    if ((request.send_flags & IBV_SEND_INLINE) != 0) {
        if ((opcode != SIW_OP_SEND && opcode != SIW_OP_WRITE) ||
            !put_inline(own, slot, request, flags))
            return EINVAL;
    } else if (!set_pieces(slot, own, opcode, request.sg_list,
                           static_cast<std::size_t>(request.num_sge))) {
        return EINVAL;
    }
    if (opcode == SIW_OP_READ && !may_read(own))
        return EINVAL;
    slot.id = request.wr_id;
    slot.opcode = opcode;
    if (opcode == SIW_OP_SEND_REMOTE_INV) {
        slot.rkey = request.invalidate_rkey;
    } else {
        slot.rkey = request.wr.rdma.rkey;
        slot.raddr = request.wr.rdma.remote_addr;
    }
    give(*vacant, static_cast<std::uint16_t>(flags));
    return 0;
}

// A pair that was never connected refuses: then nothing of it may be left. It is asked with the
// turn, so that nobody else's requests are behind.
[[gnu::noinline]] int submit_unheard(pair &own, std::uint32_t first, std::uint32_t end) noexcept {
    requests &ring = own.sends.ring;
    int error = ring_bell(own.verbs.qp, RDMA_DRIVER_SIW);
    own.heard = error == 0;
    if (error != 0) {
        for (std::uint32_t number = first; number != end; ++number)
            give(ring.slot(number), 0);
        ring.given_until(first);
    }
    own.sending.leave();
    if (error == 0)
        suspect(own, first);
    return error == ENOTCONN ? EINVAL : error;
}

[[gnu::noinline]] int submit_broken(pair &own) noexcept {
    own.sending.leave();
    wake(of<queue>(own.verbs.qp.send_cq), own.verbs.qp.pd);
    return 0;
}

// A kernel that is about to change the state also refuses, for that moment. One that goes on
// refusing has closed the connection.
[[gnu::noinline, gnu::cold]] void insist(pair &own) noexcept {
    for (int times = 0; times < 3; ++times) {
        sched_yield();
        const int error = ring_bell(own.verbs.qp, RDMA_DRIVER_SIW);
        if (error == 0)
            return;
        if (error != ENOTCONN)
            break;
    }
    break_and_wake(own);
}

// The kernel is called only if it has already taken what was before the first new one: else it will
// come to that and then to these. Whether it has is looked at after they are given to it, and it
// does it the other way round.
[[gnu::always_inline]] inline int submit_here(pair &own, std::uint32_t end) noexcept {
    requests &ring = own.sends.ring;
    const std::uint32_t first = ring.own;
    if (first == end) {
        own.sending.leave();
        return 0;
    }
    ring.given_until(end);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (std::atomic_ref(own.broken).load(std::memory_order_relaxed)) [[unlikely]]
        return submit_broken(own);
    if (!own.heard) [[unlikely]]
        return submit_unheard(own, first, end);
    const bool comes =
        end - first <= ring.at.mask && (flags_of(ring.slot(first - 1)) & SIW_WQE_VALID) != 0;
    own.sending.leave();
    if (comes)
        return 0;
    const int error = own.sending.alone() ? ring_bell(own.verbs.qp, RDMA_DRIVER_SIW)
                                          : own.ringing.ring(own.verbs.qp, RDMA_DRIVER_SIW);
    if (error != 0) [[unlikely]]
        insist(own);
    else if ((flags_of(ring.slot(first)) & SIW_WQE_VALID) != 0)
        suspect(own, first);
    return 0;
}

int post_send(ibv_qp *qp, ibv_send_wr *list, ibv_send_wr **bad) noexcept {
    pair &own = of<pair>(qp);
    int error = 0;
    own.sending.enter();
    std::uint32_t end = own.sends.ring.own;
    for (ibv_send_wr *each = list; each != nullptr; each = each->next) {
        error = put(own, end, *each);
        if (error != 0) [[unlikely]] {
            *bad = each;
            break;
        }
        ++end;
    }
    if (const int refused = submit_here(own, end)) [[unlikely]] {
        *bad = list;
        error = refused;
    }
    probe::post_send(qp->qp_num, error);
    return error;
}

int put_receive(requests &into, std::uint32_t number, std::uint32_t most_pieces,
                const ibv_recv_wr &wanted) noexcept {
    const auto count = static_cast<std::uint32_t>(wanted.num_sge);
    if (count > most_pieces)
        return EINVAL;
    request &vacant = into.slot(number);
    if (flags_of(vacant) != 0)
        return ENOMEM;
    auto &slot = reinterpret_cast<siw_rqe &>(vacant);
    slot.id = wanted.wr_id;
    slot.num_sge = static_cast<std::uint8_t>(count);
    siw_sge *to = slot.sge;
    for (const ibv_sge *from = wanted.sg_list, *end = from + count; from != end; ++from, ++to)
        *to = {from->addr, from->length, from->lkey};
    give(vacant, SIW_WQE_VALID);
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

int submit(pair &own, std::uint32_t end) noexcept {
    return submit_here(own, end);
}

int put_receives(requests &into, turn &at, std::uint32_t most_pieces, ibv_recv_wr *list,
                 ibv_recv_wr **bad) noexcept {
    at.enter();
    std::uint32_t number = into.own;
    int error = 0;
    for (ibv_recv_wr *each = list; each != nullptr; each = each->next, ++number) {
        error = put_receive(into, number, most_pieces, *each);
        if (error != 0) [[unlikely]] {
            *bad = each;
            break;
        }
    }
    into.given_until(number);
    at.leave();
    return error;
}

void fill_post(abi::operations &able) noexcept {
    able.post_send = post_send;
    able.post_recv = post_receive;
}

} // namespace coherdma::provider::siw
