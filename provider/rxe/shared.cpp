// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Shared receive queues.

#include "objects.hpp"

#include <cerrno>

namespace coherdma::provider::rxe {
namespace {

std::size_t slot_for(std::uint32_t pieces) noexcept {
    return sizeof(receive_slot) + std::size_t{pieces} * sizeof(ibv_sge);
}

int destroy(ibv_srq *srq) noexcept {
    if (const int error = library().destroy_srq(srq))
        return error;
    shared &own = of<shared>(srq);
    own.receives.unmap();
    std::free(&own);
    return 0;
}

// The kernel has made it; the rest is ours. If it cannot be, the kernel's is destroyed again.
ibv_srq *complete(fresh<shared> &own, ibv_context *context, const place &where,
                  std::uint32_t pieces) noexcept {
    if (const int error = own->receives.map(context->cmd_fd, where, slot_for(pieces))) {
        own->verbs.srq.context = context;
        library().destroy_srq(&own->verbs.srq);
        errno = error;
        return nullptr;
    }
    own->receives.start_over(true);
    own->most_pieces = pieces;
    return &own.take()->verbs.srq;
}

ibv_srq *create(ibv_pd *domain, ibv_srq_init_attr *attributes) noexcept {
    fresh<shared> own;
    if (!own)
        return nullptr;
    own->posting.init(alone(domain));
    abi::message<abi::command::create_srq> command = {};
    abi::message<abi::response::create_srq, place_of_shared> response = {};
    if (const int error = library().create_srq(domain, &own->verbs.srq, attributes, &command,
                                               command.size, &response, response.size)) {
        errno = error;
        return nullptr;
    }
    return complete(own, domain->context, response.driver.where, attributes->attr.max_sge);
}

ibv_srq *create_ex(ibv_context *context, ibv_srq_init_attr_ex *attributes) noexcept {
    fresh<shared> own;
    if (!own)
        return nullptr;
    own->posting.init((attributes->comp_mask & IBV_SRQ_INIT_ATTR_PD) != 0 && alone(attributes->pd));
    abi::message<abi::command::create_srq_ex> command = {};
    abi::message<abi::response::create_srq, place_of_shared> response = {};
    if (const int error = library().create_srq_ex(context, &own->verbs, attributes, &command,
                                                  command.size, &response, response.size)) {
        errno = error;
        return nullptr;
    }
    return complete(own, context, response.driver.where, attributes->attr.max_sge);
}

// With another size, the kernel takes along what is in the old ring: nobody may add to that one.
int modify(ibv_srq *srq, ibv_srq_attr *attributes, int mask) noexcept {
    shared &own = of<shared>(srq);
    place moved = {};
    abi::message<abi::command::modify_srq, std::uint64_t> command = {};
    command.driver = reinterpret_cast<std::uintptr_t>(&moved);
    if ((mask & IBV_SRQ_MAX_WR) == 0)
        return library().modify_srq(srq, attributes, mask, &command, command.size);
    const keeping_closed closed(own.posting);
    if (const int error = library().modify_srq(srq, attributes, mask, &command, command.size))
        return error;
    ring bigger = {};
    if (const int error = bigger.map(srq->context->cmd_fd, moved, slot_for(own.most_pieces)))
        return error;
    bigger.start_over(true);
    own.receives.unmap();
    own.receives = bigger;
    return 0;
}

int query(ibv_srq *srq, ibv_srq_attr *attributes) noexcept {
    abi::message<abi::command::query_srq> command = {};
    return library().query_srq(srq, attributes, &command, command.size);
}

int post(ibv_srq *srq, ibv_recv_wr *list, ibv_recv_wr **bad) noexcept {
    shared &own = of<shared>(srq);
    return put_receives(own.receives, own.posting, own.most_pieces, list, bad);
}

} // namespace

void fill_shared(abi::operations &able) noexcept {
    able.create_srq = create;
    able.create_srq_ex = create_ex;
    able.modify_srq = modify;
    able.query_srq = query;
    able.destroy_srq = destroy;
    able.post_srq_recv = post;
}

} // namespace coherdma::provider::rxe
