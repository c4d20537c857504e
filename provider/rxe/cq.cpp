// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "common/create.hpp"
#include "cqe.hpp"

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <unistd.h>

namespace coherdma::provider::rxe {
namespace {

int destroy_cq(ibv_cq *ibcq) noexcept {
    if (const int error = libibverbs().ibv_cmd_destroy_cq(ibcq))
        return error;
    rxe_cq &cq = to_rxe_cq(ibcq);
    cq.ring.unmap();
    std::free(&cq);
    return 0;
}

/// Maps the ring of a CQ that the kernel created; if that fails, has the kernel destroy the CQ.
rxe_cq *init_cq_or_destroy(calloc_ptr<rxe_cq> &cq, ibv_context *context,
                           const rxe_create_cq_resp &resp) noexcept {
    if (const int error = cq->ring.map(context->cmd_fd, resp.mi, sizeof(rxe_cqe))) {
        cq->verbs.cq.context = context;
        libibverbs().ibv_cmd_destroy_cq(&cq->verbs.cq);
        return fail_with(error);
    }
    return cq.release();
}

// The kernel moves the CQEs to a new ring. The lock is held so that no thread polls the old ring.
[[gnu::cold]] int resize_cq(ibv_cq *ibcq, int cqe) noexcept {
    rxe_cq &cq = to_rxe_cq(ibcq);
    const std::lock_guard guard(cq.lock);
    abi::message<abi::command::resize_cq> command = {};
    abi::message<abi::response::resize_cq, rxe_resize_cq_resp> response = {};
    if (const int error = libibverbs().ibv_cmd_resize_cq(ibcq, cqe, &command, command.size,
                                                         &response, response.size))
        return error;
    return cq.ring.replace(ibcq->context->cmd_fd, response.drv_payload.mi, sizeof(rxe_cqe));
}

// Polls CQEs that may have failed or been discarded. The caller holds the lock; this function
// releases it.
[[gnu::noinline]] int poll_cq_slow_and_unlock(rxe_cq &cq, int num_entries, ibv_wc *wc) noexcept {
    cq.ring.reset();
    const int count = poll_cqes(cq, wc, num_entries);
    cq.ring.publish_consumer();
    cq.lock.unlock();
    trace::poll(cq.verbs.cq.handle, count);
    return count;
}

[[gnu::noinline, gnu::cold]] int poll_cq_contended(rxe_cq &cq, int num_entries,
                                                   ibv_wc *wc) noexcept {
    cq.lock.lock();
    return poll_cq_slow_and_unlock(cq, num_entries, wc);
}

// The fast path, for an uncontended lock and CQEs without errors. A CQE has the layout of ibv_wc,
// but other values of wc_flags.
int poll_cq(ibv_cq *ibcq, int num_entries, ibv_wc *wc) noexcept {
    rxe_cq &cq = to_rxe_cq(ibcq);
    if (!cq.lock.try_lock()) [[unlikely]]
        return poll_cq_contended(cq, num_entries, wc);
    // A local copy stays in registers: for the compiler, a store to *wc may change the members.
    const cq_ring ring = cq.ring;
    std::uint32_t cons = ring.load_consumer();
    const int count = std::min(num_entries, static_cast<int>(ring.num_ready(cons)));
    if (count <= 0) { // num_entries may be negative
        cq.lock.unlock();
        trace::poll(ibcq->handle, 0);
        return 0;
    }
    const ibv_wc *const end = wc + count;
    ibv_wc *next_wc = wc;
    do {
        const auto &cqe = *static_cast<const rxe_cqe *>(ring.entry(cons));
        if (cqe.status != IBV_WC_SUCCESS) [[unlikely]]
            return poll_cq_slow_and_unlock(cq, num_entries, wc);
        cons = ring.next_index(cons);
        std::memcpy(next_wc, &cqe, sizeof(*next_wc));
        next_wc->wc_flags = WC_FLAGS[cqe.wc_flags % WC_FLAGS.size()];
        ++next_wc;
    } while (next_wc != end);
    ring.return_cqes(cons);
    cq.lock.unlock();
    trace::poll(ibcq->handle, count);
    return count;
}

// Uses write(), which takes fewer instructions than libibverbs' command. If the kernel refuses
// write(), libibverbs' command arms the CQ, or reports the error.
int req_notify_cq(ibv_cq *ibcq, int solicited_only) noexcept {
    req_notify_cq_cmd cmd;
    cmd.cq_handle = ibcq->handle;
    cmd.solicited_only = solicited_only != 0;
    if (write(ibcq->context->cmd_fd, &cmd, sizeof(cmd)) == ssize_t{sizeof(cmd)})
        return 0;
    return libibverbs().ibv_cmd_req_notify_cq(ibcq, solicited_only);
}

} // namespace

/// Reads up to max_wc completions and returns their number. The caller holds the lock, and
/// publishes the consumer index: until then the kernel does not reuse the CQEs.
int poll_cqes(rxe_cq &cq, ibv_wc *wc, int max_wc) noexcept {
    cq_ring &ring = cq.ring;
    int count = 0;
    while (count < max_wc) {
        const auto *const cqe = static_cast<const rxe_cqe *>(ring.peek());
        if (cqe == nullptr)
            break;
        ring.advance_consumer();
        const std::uint32_t status = cqe->status;
        if (status == CQE_DISCARDED)
            continue;
        ibv_wc &next_wc = wc[count++];
        std::memcpy(&next_wc, cqe, sizeof(next_wc));
        next_wc.wc_flags = to_wc_flags(cqe->wc_flags);
        if (status != IBV_WC_SUCCESS)
            move_qp_num_to_err(to_rxe_context(cq.verbs.cq.context), next_wc.qp_num);
    }
    return count;
}

/// Discards a QP's CQEs that have not been polled. They belong to the program, which may therefore
/// change their status. The caller holds the lock.
void discard_cqes(rxe_cq &cq, const rxe_qp &qp) noexcept {
    cq_ring ring = cq.ring; // a copy: a poll of this thread may be at another CQE
    ring.reset();
    while (auto *const cqe = static_cast<rxe_cqe *>(ring.peek())) {
        if (cqe->qp_num == qp.verbs.qp.qp_num)
            cqe->status = CQE_DISCARDED;
        ring.advance_consumer();
    }
}

void fill_cq_ops(abi::verbs_context_ops &ops) noexcept {
    constexpr auto create = create_cq_ex<rxe_cq, rxe_create_cq_resp, init_cq_or_destroy>;
    ops.create_cq = create_cq<create>;
    ops.create_cq_ex = create;
    ops.resize_cq = resize_cq;
    ops.destroy_cq = destroy_cq;
    ops.poll_cq = poll_cq;
    ops.req_notify_cq = req_notify_cq;
}

} // namespace coherdma::provider::rxe
