// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Posting by parts: a call begins a batch, one each begins a request and says what its data are,
// and one ends the batch. Slots are filled at once but published with the end alone, so a batch
// that has anything wrong in it leaves nothing behind. The turn is the thread's from the begin to
// the end, as of every device; the doorbell comes after it.

#include "request.hpp"

#include <cerrno>

namespace coherdma::provider::rxe {
namespace {

void refuse(pair &own, int error) noexcept {
    if (own.refused == 0)
        own.refused = error;
    own.building = nullptr;
}

void start(ibv_qp_ex *qp) noexcept {
    pair &own = of<pair>(qp);
    own.sending.enter();
    own.first = own.sends.own;
    own.building = nullptr;
    own.refused = qp->qp_base.state < IBV_QPS_RTS ? EINVAL : 0;
}

void abort(ibv_qp_ex *qp) noexcept {
    pair &own = of<pair>(qp);
    own.sends.own = own.first;
    own.sending.leave();
}

int complete(ibv_qp_ex *qp) noexcept {
    pair &own = of<pair>(qp);
    int error = own.refused;
    if (error != 0) {
        abort(qp);
    } else {
        const bool published = own.sends.publish();
        own.sending.leave();
        if (published)
            error = own.announce();
    }
    probe::post_send(qp->qp_base.qp_num, error);
    return error;
}

// The next request, without data yet; nullptr: the batch is refused already.
send_slot *begin(ibv_qp_ex *qp, std::uint32_t opcode, std::uint32_t extra = 0) noexcept {
    pair &own = of<pair>(qp);
    if (own.refused != 0)
        return nullptr;
    if (!own.sends.vacant()) {
        refuse(own, ENOMEM);
        return nullptr;
    }
    auto &slot = *static_cast<send_slot *>(own.sends.slot(own.sends.own));
    slot = {};
    slot.id = qp->wr_id;
    slot.opcode = opcode;
    slot.flags = qp->wr_flags & known_flags & ~unsigned{IBV_SEND_INLINE};
    slot.extra = extra;
    own.sends.filled();
    own.building = &slot;
    return &slot;
}

void to(send_slot *slot, std::uint32_t key, std::uint64_t remote) noexcept {
    if (slot == nullptr)
        return;
    slot->to.memory = {remote, key, 0};
    slot->remote = remote;
}

void send(ibv_qp_ex *qp) noexcept {
    begin(qp, IBV_WR_SEND);
}
void send_imm(ibv_qp_ex *qp, __be32 data) noexcept {
    begin(qp, IBV_WR_SEND_WITH_IMM, data);
}
void send_inv(ibv_qp_ex *qp, std::uint32_t key) noexcept {
    begin(qp, IBV_WR_SEND_WITH_INV, key);
}
void local_inv(ibv_qp_ex *qp, std::uint32_t key) noexcept {
    begin(qp, IBV_WR_LOCAL_INV, key);
}
void write(ibv_qp_ex *qp, std::uint32_t key, std::uint64_t remote) noexcept {
    to(begin(qp, IBV_WR_RDMA_WRITE), key, remote);
}
void write_imm(ibv_qp_ex *qp, std::uint32_t key, std::uint64_t remote, __be32 data) noexcept {
    to(begin(qp, IBV_WR_RDMA_WRITE_WITH_IMM, data), key, remote);
}
void read(ibv_qp_ex *qp, std::uint32_t key, std::uint64_t remote) noexcept {
    to(begin(qp, IBV_WR_RDMA_READ), key, remote);
}

void atomic(send_slot *slot, const to_atomic &target) noexcept {
    if (slot == nullptr)
        return;
    slot->to.atomic = target;
    slot->remote = target.address;
}
void compare_swap(ibv_qp_ex *qp, std::uint32_t key, std::uint64_t remote, std::uint64_t compare,
                  std::uint64_t swap) noexcept {
    atomic(begin(qp, IBV_WR_ATOMIC_CMP_AND_SWP), {remote, compare, swap, key, 0});
}
void fetch_add(ibv_qp_ex *qp, std::uint32_t key, std::uint64_t remote, std::uint64_t add) noexcept {
    atomic(begin(qp, IBV_WR_ATOMIC_FETCH_AND_ADD), {remote, add, 0, key, 0});
}

// Its data come with it.
void atomic_write(ibv_qp_ex *qp, std::uint32_t key, std::uint64_t remote,
                  const void *data) noexcept {
    send_slot *const slot = begin(qp, atomic_write_opcode);
    if (slot == nullptr)
        return;
    to(slot, key, remote);
    slot->data.length = slot->data.left = atomic_write_bytes;
    copied(behind_of(*slot), data, atomic_write_bytes);
    of<pair>(qp).building = nullptr;
}

void flush(ibv_qp_ex *qp, std::uint32_t key, std::uint64_t remote, std::size_t length,
           std::uint8_t type, std::uint8_t level) noexcept {
    if (length >= too_long)
        return refuse(of<pair>(qp), EINVAL);
    send_slot *const slot = begin(qp, flush_opcode);
    if (slot == nullptr)
        return;
    const auto bytes = static_cast<std::uint32_t>(length);
    slot->to.flush = {remote, bytes, key, type, level, 0, 0};
    slot->remote = remote;
    slot->data.length = slot->data.left = bytes;
    of<pair>(qp).building = nullptr;
}

void bind(ibv_qp_ex *qp, ibv_mw *window, std::uint32_t key, const ibv_mw_bind_info *how) noexcept {
    if (window == nullptr || how == nullptr)
        return refuse(of<pair>(qp), EINVAL);
    if (send_slot *const slot = begin(qp, IBV_WR_BIND_MW))
        slot->to.window = window_of(*window, key, *how);
}

void set_address(ibv_qp_ex *qp, ibv_ah *ah, std::uint32_t number, std::uint32_t key) noexcept {
    if (ah == nullptr)
        return refuse(of<pair>(qp), EINVAL);
    if (send_slot *const slot = of<pair>(qp).building)
        slot->to.datagram = {number, key, 0, 0, of<handle>(ah).number};
}

void set_pieces(ibv_qp_ex *qp, std::size_t count, const ibv_sge *pieces) noexcept {
    pair &own = of<pair>(qp);
    send_slot *const slot = own.building;
    if (slot == nullptr)
        return;
    if (count > own.most_pieces_sent)
        return refuse(own, EINVAL);
    const std::uint64_t length = total(pieces, count);
    if (length >= too_long)
        return refuse(own, EINVAL);
    copied(behind_of(*slot), pieces, count * sizeof(ibv_sge));
    slot->data.pieces = static_cast<std::uint32_t>(count);
    slot->data.length = slot->data.left = static_cast<std::uint32_t>(length);
}
void set_piece(ibv_qp_ex *qp, std::uint32_t key, std::uint64_t address,
               std::uint32_t length) noexcept {
    const ibv_sge piece = {address, length, key};
    set_pieces(qp, 1, &piece);
}

void set_inline_list(ibv_qp_ex *qp, std::size_t count, const ibv_data_buf *pieces) noexcept {
    pair &own = of<pair>(qp);
    send_slot *const slot = own.building;
    if (slot == nullptr)
        return;
    std::size_t left = own.most_inline;
    if ((can_be_inline & (std::uint32_t{1} << slot->opcode)) == 0)
        return refuse(own, EINVAL);
    unsigned char *behind = behind_of(*slot);
    for (const ibv_data_buf *piece = pieces; piece != pieces + count; ++piece) {
        if (piece->length > left)
            return refuse(own, EINVAL);
        left -= piece->length;
        behind = copied(behind, piece->addr, piece->length);
    }
    slot->flags |= IBV_SEND_INLINE; // without it, the kernel takes the data for pieces
    slot->data.length = slot->data.left = static_cast<std::uint32_t>(own.most_inline - left);
}
void set_inline(ibv_qp_ex *qp, void *from, std::size_t length) noexcept {
    const ibv_data_buf piece = {from, length};
    set_inline_list(qp, 1, &piece);
}

} // namespace

void extend(pair &own, std::uint64_t operations) noexcept {
    ibv_qp_ex &qp = own.verbs.qp_ex;
    const auto offer = [operations](auto &place, ibv_wr_opcode opcode, auto function) {
        place = (operations & bit(opcode)) != 0 ? function : nullptr;
    };
    offer(qp.wr_send, IBV_WR_SEND, send);
    offer(qp.wr_send_imm, IBV_WR_SEND_WITH_IMM, send_imm);
    offer(qp.wr_send_inv, IBV_WR_SEND_WITH_INV, send_inv);
    offer(qp.wr_local_inv, IBV_WR_LOCAL_INV, local_inv);
    offer(qp.wr_rdma_write, IBV_WR_RDMA_WRITE, write);
    offer(qp.wr_rdma_write_imm, IBV_WR_RDMA_WRITE_WITH_IMM, write_imm);
    offer(qp.wr_rdma_read, IBV_WR_RDMA_READ, read);
    offer(qp.wr_atomic_cmp_swp, IBV_WR_ATOMIC_CMP_AND_SWP, compare_swap);
    offer(qp.wr_atomic_fetch_add, IBV_WR_ATOMIC_FETCH_AND_ADD, fetch_add);
    offer(qp.wr_bind_mw, IBV_WR_BIND_MW, bind);
    if (qp.qp_base.qp_type == IBV_QPT_UD)
        qp.wr_set_ud_addr = set_address;
    qp.wr_set_sge = set_piece;
    qp.wr_set_sge_list = set_pieces;
    qp.wr_set_inline_data = set_inline;
    qp.wr_set_inline_data_list = set_inline_list;
    qp.wr_start = start;
    qp.wr_complete = complete;
    qp.wr_abort = abort;
    abi::extend(own.verbs, {(operations & atomic_write_operation) != 0 ? atomic_write : nullptr,
                            (operations & flush_operation) != 0 ? flush : nullptr});
}

} // namespace coherdma::provider::rxe
