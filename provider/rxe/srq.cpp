// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "common/create.hpp"
#include "objects.hpp"

#include <bit>
#include <cerrno>
#include <mutex>

namespace coherdma::provider::rxe {
namespace {

std::size_t recv_wqe_size(std::uint32_t max_sge) noexcept {
    return sizeof(rxe_recv_wqe) + std::size_t{max_sge} * sizeof(ibv_sge);
}

int destroy_srq(ibv_srq *ibsrq) noexcept {
    if (const int error = libibverbs().ibv_cmd_destroy_srq(ibsrq))
        return error;
    rxe_srq &srq = to_rxe_srq(ibsrq);
    srq.ring.unmap();
    std::free(&srq);
    return 0;
}

/// Maps the ring of an SRQ that the kernel created; if that fails, has the kernel destroy the SRQ.
ibv_srq *init_srq_or_destroy(calloc_ptr<rxe_srq> &srq, ibv_pd *pd, const rxe_create_srq_resp &resp,
                             const ibv_srq_attr &attr) noexcept {
    srq->lock.init(is_single_threaded(pd));
    srq->max_sge = attr.max_sge;
    if (const int error =
            srq->ring.map(pd->context->cmd_fd, resp.mi, recv_wqe_size(attr.max_sge))) {
        srq->verbs.srq.context = pd->context;
        libibverbs().ibv_cmd_destroy_srq(&srq->verbs.srq);
        return fail_with(error);
    }
    srq->ring.reset();
    return &srq.release()->verbs.srq;
}

/// Whether a ring for max_wr receives has room for those that are posted. The kernel rounds up, and
/// one entry stays unused.
bool has_room(const wq_ring &ring, std::uint32_t max_wr) noexcept {
    const std::uint64_t num_entries = std::bit_ceil(std::uint64_t{max_wr} + 1);
    return ring.num_posted() < num_entries;
}

// If max_wr changes, the kernel moves the WQEs to a new ring. The lock is held so that no thread
// posts to the old ring. The kernel writes to `mi` how to map the new one.
[[gnu::cold]] int modify_srq(ibv_srq *ibsrq, ibv_srq_attr *attr, int attr_mask) noexcept {
    rxe_srq &srq = to_rxe_srq(ibsrq);
    mminfo mi = {};
    abi::message<abi::command::modify_srq, rxe_modify_srq_cmd> command = {};
    command.drv_payload.mmap_info_addr = reinterpret_cast<std::uintptr_t>(&mi);
    if ((attr_mask & IBV_SRQ_MAX_WR) == 0)
        return libibverbs().ibv_cmd_modify_srq(ibsrq, attr, attr_mask, &command, command.size);
    const std::lock_guard guard(srq.lock);
    // The kernel refuses it as well, but rxe_srq_from_attr() of older kernels has freed the queue
    // by then, and the next receive uses it.
    if (!has_room(srq.ring, attr->max_wr))
        return EINVAL;
    if (const int error =
            libibverbs().ibv_cmd_modify_srq(ibsrq, attr, attr_mask, &command, command.size))
        return error;
    const int error = srq.ring.replace(ibsrq->context->cmd_fd, mi, recv_wqe_size(srq.max_sge));
    srq.ring.reset();
    return error;
}

int post_srq_recv(ibv_srq *ibsrq, ibv_recv_wr *wr, ibv_recv_wr **bad_wr) noexcept {
    rxe_srq &srq = to_rxe_srq(ibsrq);
    return post_recvs(srq.ring, srq.lock, srq.max_sge, wr, bad_wr);
}

} // namespace

void fill_srq_ops(abi::verbs_context_ops &ops) noexcept {
    ops.create_srq = create_srq<rxe_srq, rxe_create_srq_resp, init_srq_or_destroy>;
    ops.create_srq_ex = create_srq_ex<rxe_srq, rxe_create_srq_resp, init_srq_or_destroy>;
    ops.modify_srq = modify_srq;
    ops.query_srq = query_srq;
    ops.destroy_srq = destroy_srq;
    ops.post_srq_recv = post_srq_recv;
}

} // namespace coherdma::provider::rxe
