// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Posting by parts: a call begins a batch, one each begins a request and says what its data are,
// and one ends the batch. Slots are filled at once but given to the kernel with the end alone, so a
// batch that has anything wrong in it leaves nothing behind. The turn is the thread's from the
// begin to the end, as of every device; the kernel is called after it.

#include "request.hpp"

#include <cerrno>

namespace coherdma::provider::siw {
namespace {

void refuse(pair &own, int error) noexcept {
    if (own.refused == 0)
        own.refused = error;
    own.building = nullptr;
}

void start(ibv_qp_ex *qp) noexcept {
    pair &own = of<pair>(qp);
    own.sending.enter();
    own.end = own.sends.ring.own;
    own.building = nullptr;
    own.refused = 0;
}

void abort(ibv_qp_ex *qp) noexcept {
    of<pair>(qp).sending.leave();
}

int give_all(pair &own) noexcept {
    requests &ring = own.sends.ring;
    for (std::uint32_t number = ring.own; number != own.end; ++number) {
        request &slot = ring.slot(number);
        const std::uint16_t flags = waiting_flags(slot.opcode);
        slot.opcode &= opcode_mask;
        give(slot, flags | SIW_WQE_VALID);
    }
    return submit(own, own.end);
}

int complete(ibv_qp_ex *qp) noexcept {
    pair &own = of<pair>(qp);
    int error = own.refused;
    if (error != 0)
        own.sending.leave();
    else
        error = give_all(own);
    probe::post_send(qp->qp_base.qp_num, error);
    return error;
}

// The next request, without data yet; nullptr: the batch is refused already.
siw_sqe *next(ibv_qp_ex *qp, std::uint8_t opcode) noexcept {
    pair &own = of<pair>(qp);
    if (own.refused != 0)
        return nullptr;
    request *const vacant = own.sends.ring.vacant(own.end);
    if (vacant == nullptr) {
        refuse(own, ENOMEM);
        return nullptr;
    }
    siw_sqe &slot = sqe(*vacant);
    slot.id = qp->wr_id;
    slot.num_sge = 0;
    slot.opcode = waiting(opcode, flags_for(own, own.end, opcode, qp->wr_flags));
    slot.sge[0] = {};
    own.building = &slot;
    ++own.end;
    return &slot;
}

void send(ibv_qp_ex *qp) noexcept {
    next(qp, SIW_OP_SEND);
}
void send_inv(ibv_qp_ex *qp, std::uint32_t key) noexcept {
    if (siw_sqe *const slot = next(qp, SIW_OP_SEND_REMOTE_INV))
        slot->rkey = key;
}
void to(siw_sqe *slot, std::uint32_t key, std::uint64_t remote) noexcept {
    if (slot == nullptr)
        return;
    slot->rkey = key;
    slot->raddr = remote;
}
void write(ibv_qp_ex *qp, std::uint32_t key, std::uint64_t remote) noexcept {
    to(next(qp, SIW_OP_WRITE), key, remote);
}
void read(ibv_qp_ex *qp, std::uint32_t key, std::uint64_t remote) noexcept {
    pair &own = of<pair>(qp);
    if (!may_read(own))
        return refuse(own, EINVAL);
    to(next(qp, SIW_OP_READ), key, remote);
}

void set_list(ibv_qp_ex *qp, std::size_t count, const ibv_sge *pieces) noexcept {
    pair &own = of<pair>(qp);
    siw_sqe *const slot = own.building;
    if (slot == nullptr)
        return;
    if (!set_pieces(*slot, own, slot->opcode & opcode_mask, pieces, count))
        refuse(own, EINVAL);
}
void set_piece(ibv_qp_ex *qp, std::uint32_t key, std::uint64_t address,
               std::uint32_t length) noexcept {
    const ibv_sge piece = {address, length, key};
    set_list(qp, 1, &piece);
}

void set_inline_list(ibv_qp_ex *qp, std::size_t count, const ibv_data_buf *pieces) noexcept {
    pair &own = of<pair>(qp);
    siw_sqe *const slot = own.building;
    if (slot == nullptr)
        return;
    const int opcode = slot->opcode & opcode_mask;
    if (opcode != SIW_OP_SEND && opcode != SIW_OP_WRITE)
        return refuse(own, EINVAL);
    std::size_t left = own.most_inline;
    unsigned char *room = inline_room(*slot);
    for (const ibv_data_buf *piece = pieces; piece != pieces + count; ++piece) {
        if (piece->length > left)
            return refuse(own, EINVAL);
        if (piece->length != 0)
            std::memcpy(room, piece->addr, piece->length);
        room += piece->length;
        left -= piece->length;
    }
    const auto length = static_cast<std::uint32_t>(own.most_inline - left);
    slot->opcode = waiting(slot->opcode, set_inline_length(*slot, length));
}
void set_inline(ibv_qp_ex *qp, void *from, std::size_t length) noexcept {
    const ibv_data_buf piece = {from, length};
    set_inline_list(qp, 1, &piece);
}

} // namespace

void extend(pair &own, std::uint64_t operations) noexcept {
    ibv_qp_ex &qp = own.verbs.qp_ex;
    const auto offer = [operations](auto &place, ibv_wr_opcode opcode, auto function) {
        place = (operations >> opcode & 1) != 0 ? function : nullptr;
    };
    offer(qp.wr_send, IBV_WR_SEND, send);
    offer(qp.wr_send_inv, IBV_WR_SEND_WITH_INV, send_inv);
    offer(qp.wr_rdma_write, IBV_WR_RDMA_WRITE, write);
    offer(qp.wr_rdma_read, IBV_WR_RDMA_READ, read);
    qp.wr_set_sge = set_piece;
    qp.wr_set_sge_list = set_list;
    qp.wr_set_inline_data = set_inline;
    qp.wr_set_inline_data_list = set_inline_list;
    qp.wr_start = start;
    qp.wr_complete = complete;
    qp.wr_abort = abort;
    abi::extend(own.verbs, {nullptr, nullptr});
}

} // namespace coherdma::provider::siw
