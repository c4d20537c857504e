// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Queue pairs: how they are made and what state they are in.

#include "common/creating.hpp"
#include "objects.hpp"

#include <algorithm>
#include <cerrno>

namespace coherdma::provider::rxe {
namespace {

void unmap(pair &own) noexcept {
    own.sends.unmap();
    own.receives.unmap();
}

void forget_completions(const pair &own) noexcept {
    const ibv_qp &qp = own.verbs.qp;
    rxe::forget_completions(of<queue>(qp.send_cq), qp.qp_num);
    if (qp.recv_cq != qp.send_cq)
        rxe::forget_completions(of<queue>(qp.recv_cq), qp.qp_num);
}

// It is taken off the list first: then nobody who polls finds a pair that the kernel does not have
// any more, or another one of its number. Its completions that nobody has polled go with it.
int destroy(ibv_qp *qp) noexcept {
    pair &own = of<pair>(qp);
    pairs<pair> &all = of<context>(qp->context).all;
    all.remove(own);
    if (const int error = library().destroy_qp(qp)) {
        all.add(own);
        return error;
    }
    forget_completions(own);
    unmap(own);
    std::free(&own);
    return 0;
}

// The limits of requests are those that the kernel granted, and each ring's slots must hold them.
int map(pair &own, int fd, const places_of_pair &where, const ibv_qp_cap &granted,
        bool receives) noexcept {
    own.most_pieces_sent = granted.max_send_sge;
    own.most_inline = granted.max_inline_data;
    own.most_pieces_received = granted.max_recv_sge;
    const std::size_t pieces = std::size_t{own.most_pieces_sent} * sizeof(ibv_sge);
    const std::size_t data = std::max(pieces, std::size_t{own.most_inline});
    if (const int error = own.sends.map(fd, where.send, sizeof(send_slot) + data))
        return error;
    own.sends.start_over(true);
    if (!receives)
        return 0;
    const std::size_t received = std::size_t{own.most_pieces_received} * sizeof(ibv_sge);
    if (const int error = own.receives.map(fd, where.receive, sizeof(receive_slot) + received))
        return error;
    own.receives.start_over(true);
    return 0;
}

// The kernel has made it; the rest is ours. If it cannot be, the kernel's is destroyed again.
template <class attributes>
pair *complete(fresh<pair> &own, const attributes &granted, const places_of_pair &where,
               bool alone) noexcept {
    ibv_qp *const qp = &own->verbs.qp;
    own->opcodes = opcodes_of(granted.qp_type);
    own->sending.init(alone);
    own->receiving.init(alone);
    if (const int error =
            map(*own, qp->context->cmd_fd, where, granted.cap, granted.srq == nullptr)) {
        library().destroy_qp(qp);
        unmap(*own);
        errno = error;
        return nullptr;
    }
    of<context>(qp->context).all.add(*own);
    return own.take();
}

// The operations to post by parts have the numbers of the opcodes.
static_assert(IBV_QP_EX_WITH_SEND == 1U << IBV_WR_SEND);
static_assert(IBV_QP_EX_WITH_SEND_WITH_INV == 1U << IBV_WR_SEND_WITH_INV);
static_assert(IBV_QP_EX_WITH_BIND_MW == 1U << IBV_WR_BIND_MW);

// What such a pair can on this device with this libibverbs.
std::uint64_t operations_of(ibv_context *context, ibv_qp_type type, std::uint64_t wanted) noexcept {
    std::uint64_t able = opcodes_of(type);
    if ((wanted & (atomic_write_operation | flush_operation)) == 0 || type != IBV_QPT_RC)
        return able;
    ibv_device_attr_ex device = {};
    if (ibv_query_device_ex(context, nullptr, &device) != 0)
        return able;
    if (abi::here().atomic_write != 0 && (device.device_cap_flags_ex & has_atomic_write) != 0)
        able |= atomic_write_operation;
    if (abi::here().flush != 0 && (device.device_cap_flags_ex & has_flush) != 0)
        able |= flush_operation;
    return able;
}

// The kernel has dropped all requests, and what it has completed is of no use any more.
void start_over(pair &own) noexcept {
    forget_completions(own);
    {
        const taking_turn mine(own.sending);
        own.sends.start_over(true);
    }
    if (own.receives.head == nullptr)
        return;
    const taking_turn mine(own.receiving);
    own.receives.start_over(true);
}

int change(pair &own, ibv_qp_attr *attributes, int mask) noexcept {
    abi::message<abi::command::modify_qp> command = {};
    return library().modify_qp(&own.verbs.qp, attributes, mask, &command, command.size);
}

// Who posts a receive looks at broken after it. It is set before the kernel knows, so that a
// receive is either there when the kernel flushes, or whoever posted it has it flushed.
int modify(ibv_qp *qp, ibv_qp_attr *attributes, int mask) noexcept {
    pair &own = of<pair>(qp);
    const bool moves = (mask & IBV_QP_STATE) != 0;
    std::atomic_ref broken(own.broken);
    const bool before = broken.load();
    if (moves && (attributes->qp_state == IBV_QPS_ERR || attributes->qp_state == IBV_QPS_RESET))
        broken.store(true); // while it is reset, too: no completion of before breaks it afterwards
    if (const int error = change(own, attributes, mask)) {
        broken.store(before);
        return error;
    }
    if (moves && attributes->qp_state == IBV_QPS_RESET)
        start_over(own);
    if (moves && attributes->qp_state != IBV_QPS_ERR)
        broken.store(false);
    return 0;
}

int query(ibv_qp *qp, ibv_qp_attr *attributes, int mask, ibv_qp_init_attr *initial) noexcept {
    abi::message<abi::command::query_qp> command = {};
    return library().query_qp(qp, attributes, mask, initial, &command, command.size);
}

} // namespace

int break_pair(pair &own) noexcept {
    ibv_qp_attr attributes = {};
    attributes.qp_state = IBV_QPS_ERR;
    return change(own, &attributes, IBV_QP_STATE);
}

// A pair of another type may live on.
void found_broken(context &of, std::uint32_t number) noexcept {
    of.all.each([number](pair &own) {
        if (own.verbs.qp.qp_num == number && own.verbs.qp.qp_type == IBV_QPT_RC &&
            !std::atomic_ref(own.broken).exchange(true))
            break_pair(own);
    });
}

void fill_pair(abi::operations &able) noexcept {
    able.create_qp = create_qp<pair, places_of_pair, complete<ibv_qp_init_attr>>;
    able.create_qp_ex =
        create_qp_ex<pair, places_of_pair, complete<ibv_qp_init_attr_ex>, operations_of>;
    able.modify_qp = modify;
    able.query_qp = query;
    able.destroy_qp = destroy;
}

} // namespace coherdma::provider::rxe
