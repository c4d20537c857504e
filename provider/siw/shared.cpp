// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Shared receive queues.

#include "common/creating.hpp"
#include "objects.hpp"

#include <cerrno>

namespace coherdma::provider::siw {
namespace {

int destroy(ibv_srq *srq) noexcept {
    if (const int error = library().destroy_srq(srq))
        return error;
    shared &own = of<shared>(srq);
    own.ring.at.unmap();
    std::free(&own);
    return 0;
}

// The kernel has made it; the rest is ours. If it cannot be, the kernel's is destroyed again.
ibv_srq *complete(fresh<shared> &own, ibv_pd *domain, const siw_uresp_create_srq &made,
                  ibv_srq_attr &granted) noexcept {
    own->posting.init(alone(domain));
    own->ring.stride = sizeof(siw_rqe);
    own->most_pieces = granted.max_sge;
    if (const int error = own->ring.at.map(domain->context->cmd_fd, made.srq_key, made.num_rqe,
                                           sizeof(siw_rqe))) {
        own->verbs.srq.context = domain->context;
        library().destroy_srq(&own->verbs.srq);
        errno = error;
        return nullptr;
    }
    granted.max_wr = made.num_rqe;
    return &own.take()->verbs.srq;
}

// The kernel would say yes to another size, and do nothing.
int modify(ibv_srq *srq, ibv_srq_attr *attributes, int mask) noexcept {
    if ((mask & IBV_SRQ_MAX_WR) != 0)
        return EOPNOTSUPP;
    abi::message<abi::command::modify_srq> command = {};
    return library().modify_srq(srq, attributes, mask, &command, command.size);
}

int query(ibv_srq *srq, ibv_srq_attr *attributes) noexcept {
    abi::message<abi::command::query_srq> command = {};
    return library().query_srq(srq, attributes, &command, command.size);
}

int post(ibv_srq *srq, ibv_recv_wr *list, ibv_recv_wr **bad) noexcept {
    shared &own = of<shared>(srq);
    return put_receives(own.ring, own.posting, own.most_pieces, list, bad);
}

} // namespace

void fill_shared(abi::operations &able) noexcept {
    able.create_srq = create_srq<shared, siw_uresp_create_srq, complete>;
    able.create_srq_ex = create_srq_ex<shared, siw_uresp_create_srq, complete>;
    able.modify_srq = modify;
    able.query_srq = query;
    able.destroy_srq = destroy;
    able.post_srq_recv = post;
}

} // namespace coherdma::provider::siw
