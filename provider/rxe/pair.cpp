// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Queue pairs: how they are made and what state they are in.

#include "objects.hpp"

#include <algorithm>
#include <cerrno>

namespace coherdma::provider::rxe {
namespace {

using abi::library;

void unmap(pair &own) noexcept {
    own.sends.unmap();
    own.receives.unmap();
}

int destroy(ibv_qp *qp) noexcept {
    if (const int error = library().destroy_qp(qp))
        return error;
    pair &own = of<pair>(qp);
    unmap(own);
    std::free(&own);
    return 0;
}

// The limits of requests are those that the kernel granted, and each ring's slots must hold them.
int map(pair &own, int fd, const places_of_pair &where, const ibv_qp_init_attr &granted) noexcept {
    own.most_pieces_sent = granted.cap.max_send_sge;
    own.most_inline = granted.cap.max_inline_data;
    own.most_pieces_received = granted.cap.max_recv_sge;
    const std::size_t pieces = std::size_t{own.most_pieces_sent} * sizeof(ibv_sge);
    const std::size_t data = std::max(pieces, std::size_t{own.most_inline});
    if (const int error = own.sends.map(fd, where.send, sizeof(send_slot) + data))
        return error;
    own.sends.start_over(true);
    if (granted.srq != nullptr)
        return 0;
    const std::size_t received = std::size_t{own.most_pieces_received} * sizeof(ibv_sge);
    if (const int error = own.receives.map(fd, where.receive, sizeof(receive_slot) + received))
        return error;
    own.receives.start_over(true);
    return 0;
}

ibv_qp *create(ibv_pd *domain, ibv_qp_init_attr *attributes) noexcept {
    fresh<pair> own;
    if (!own)
        return nullptr;
    own->sending.init();
    own->receiving.init();
    own->opcodes = opcodes_of(attributes->qp_type);
    ibv_qp *const qp = &own->verbs.qp;
    abi::message<abi::command::create_qp> command = {};
    abi::message<abi::response::create_qp, places_of_pair> response = {};
    int error = library().create_qp(domain, qp, attributes, &command, command.size, &response,
                                    response.size);
    if (error == 0) {
        error = map(*own, domain->context->cmd_fd, response.driver, *attributes);
        if (error != 0) {
            library().destroy_qp(qp);
            unmap(*own);
        }
    }
    if (error != 0) {
        errno = error;
        return nullptr;
    }
    return &own.take()->verbs.qp;
}

// The kernel has dropped all requests.
void forget_requests(pair &own) noexcept {
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
    if (moves && attributes->qp_state == IBV_QPS_ERR)
        broken.store(true);
    if (const int error = change(own, attributes, mask)) {
        broken.store(before);
        return error;
    }
    if (moves && attributes->qp_state != IBV_QPS_ERR)
        broken.store(false);
    if (moves && attributes->qp_state == IBV_QPS_RESET)
        forget_requests(own);
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

void fill_pair(abi::operations &able) noexcept {
    able.create_qp = create;
    able.modify_qp = modify;
    able.query_qp = query;
    able.destroy_qp = destroy;
}

} // namespace coherdma::provider::rxe
