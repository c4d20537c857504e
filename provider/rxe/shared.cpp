// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Shared receive queues.

#include "common/creating.hpp"
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
ibv_srq *complete(fresh<shared> &own, ibv_pd *domain, const place_of_shared &made,
                  const ibv_srq_attr &granted) noexcept {
    own->posting.init(alone(domain));
    own->most_pieces = granted.max_sge;
    if (const int error =
            own->receives.map(domain->context->cmd_fd, made.where, slot_for(granted.max_sge))) {
        own->verbs.srq.context = domain->context;
        library().destroy_srq(&own->verbs.srq);
        return failed(error);
    }
    own->receives.start_over(true);
    return &own.take()->verbs.srq;
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
    able.create_srq = create_srq<shared, place_of_shared, complete>;
    able.create_srq_ex = create_srq_ex<shared, place_of_shared, complete>;
    able.modify_srq = modify;
    able.query_srq = query;
    able.destroy_srq = destroy;
    able.post_srq_recv = post;
}

} // namespace coherdma::provider::rxe
