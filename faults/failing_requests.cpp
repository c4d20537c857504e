// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "failing_requests.hpp"

#include <algorithm>
#include <utility>

namespace coherdma::faults {
namespace {

/// Of no MR: each driver's keys are an index and eight bits, and no device has so many MRs.
constexpr std::uint32_t NO_KEY = 0xffffff00;

/// Of a request without data.
std::uint64_t any_data = 0;

constexpr bool IS_RECEIVE = true;

} // namespace

void failing_requests::add_srq(const void *srq) {
    const std::lock_guard guard(mutex_);
    srqs_.insert(srq);
}

bool failing_requests::is_srq(const void *handle) {
    const std::lock_guard guard(mutex_);
    return srqs_.contains(handle);
}

void failing_requests::note_post(const interposer::request &posted) noexcept {
    // Relaxed: what matters are the posts to a queue before its reset, which the program orders.
    std::uint64_t last = last_posted_.load(std::memory_order_relaxed);
    while (last < posted.number &&
           !last_posted_.compare_exchange_weak(last, posted.number, std::memory_order_relaxed)) {
    }
}

bool failing_requests::add(const interposer::request &posted, const fault &cause) {
    if (!posted.is_followed)
        return false;
    queue &target = queues_[{posted.queue, posted.is_receive}];
    if (target.has_error || target.failing)
        return false;
    target.failing = failing_request{.cause = &cause, .number = posted.number, .has_failed = false};
    return true;
}

/// The device must look at a key, also of a request without data. Of inline data there may be more
/// pieces than the QP has SGEs.
template <class wr_type>
void failing_requests::set_sges(wr_type &wr, bool is_inline) {
    std::vector<ibv_sge> &sges =
        sges_.emplace_back(wr.sg_list, wr.sg_list + std::max(wr.num_sge, 0));
    const bool has_data =
        std::any_of(sges.begin(), sges.end(), [](const ibv_sge &sge) { return sge.length != 0; });
    if (!has_data || is_inline)
        sges.assign(1,
                    {.addr = reinterpret_cast<std::uintptr_t>(&any_data), .length = 1, .lkey = 0});
    for (ibv_sge &sge : sges)
        sge.lkey = NO_KEY;
    wr.sg_list = sges.data();
    wr.num_sge = static_cast<int>(sges.size());
}

bool failing_requests::begin(const interposer::request &posted, ibv_send_wr &wr,
                             const fault &cause) {
    const std::lock_guard guard(mutex_);
    if (!add(posted, cause))
        return false;
    const bool is_inline = (wr.send_flags & IBV_SEND_INLINE) != 0;
    switch (wr.opcode) {
    case IBV_WR_LOCAL_INV:
        wr.invalidate_rkey = NO_KEY;
        break;
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
    case IBV_WR_SEND_WITH_INV:
    case IBV_WR_TSO:
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
    case IBV_WR_RDMA_READ:
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        wr.send_flags &= ~static_cast<unsigned>(IBV_SEND_INLINE);
        set_sges(wr, is_inline);
        break;
    default: // of ibv_wr_flush() and ibv_wr_atomic_write(), which name no memory of the program
        wr.wr.rdma.rkey = NO_KEY;
    }
    return true;
}

bool failing_requests::begin(const interposer::request &posted, ibv_recv_wr &wr,
                             const fault &cause) {
    const std::lock_guard guard(mutex_);
    if (!add(posted, cause))
        return false;
    constexpr bool IS_INLINE = true;
    set_sges(wr, !IS_INLINE);
    return true;
}

failing_requests::result
failing_requests::complete_send(queue &source, const interposer::request &completed, ibv_wc &wc) {
    failing_request &failing = *source.failing;
    if (wc.status == IBV_WC_SUCCESS) {
        if (completed.number != failing.number)
            return result::NOTHING;
        source.failing.reset();
        return result::SUCCEEDED;
    }
    if (wc.status == IBV_WC_WR_FLUSH_ERR && source.is_moved_to_error && !failing.has_failed) {
        if (completed.number != failing.number)
            return result::NOTHING;
        source.failing.reset();
        return result::FLUSHED;
    }
    const bool is_first = !std::exchange(failing.has_failed, true);
    wc.status = is_first ? static_cast<ibv_wc_status>(failing.cause->error) : IBV_WC_WR_FLUSH_ERR;
    return is_first ? result::FAILED : result::NOTHING;
}

failing_requests::result failing_requests::complete_receive(queue &source,
                                                            const interposer::request &completed,
                                                            ibv_wc &wc) {
    if (completed.number != source.failing->number)
        return result::NOTHING;
    const fault &cause = *source.failing->cause;
    source.failing.reset();
    if (wc.status == IBV_WC_SUCCESS)
        return result::SUCCEEDED;
    if (wc.status == IBV_WC_WR_FLUSH_ERR)
        return result::FLUSHED;
    wc.status = static_cast<ibv_wc_status>(cause.error);
    return result::FAILED;
}

failing_requests::result failing_requests::complete(const interposer::request &completed,
                                                    ibv_wc &wc, const fault *&cause) {
    const std::lock_guard guard(mutex_);
    const auto match = queues_.find({completed.queue, completed.is_receive});
    if (match != queues_.end() && completed.number <= match->second.last_before)
        return result::NOTHING;
    // A QP stays in the error state; the SRQ serves other QPs.
    if (wc.status != IBV_WC_SUCCESS && !srqs_.contains(completed.queue))
        note_error(completed.queue);
    if (match == queues_.end() || !match->second.failing)
        return result::NOTHING;
    queue &source = match->second;
    cause = source.failing->cause;
    return completed.is_receive ? complete_receive(source, completed, wc)
                                : complete_send(source, completed, wc);
}

const fault *failing_requests::cancel(const interposer::request &cancelled) {
    const std::lock_guard guard(mutex_);
    const auto match = queues_.find({cancelled.queue, cancelled.is_receive});
    if (match == queues_.end() || !match->second.failing ||
        match->second.failing->number != cancelled.number)
        return nullptr;
    const fault *const cause = match->second.failing->cause;
    match->second.failing.reset();
    return cause;
}

void failing_requests::forget(const void *handle) {
    const std::lock_guard guard(mutex_);
    const std::uint64_t last = last_posted_.load(std::memory_order_relaxed);
    for (const bool is_receive : {IS_RECEIVE, !IS_RECEIVE})
        queues_[{handle, is_receive}] = {
            .last_before = last, .has_error = false, .is_moved_to_error = false, .failing = {}};
    srqs_.erase(handle);
}

void failing_requests::note_error(const void *qp) {
    queues_[{qp, IS_RECEIVE}].has_error = true;
    queues_[{qp, !IS_RECEIVE}].has_error = true;
}

void failing_requests::note_error_state(const void *qp) {
    const std::lock_guard guard(mutex_);
    note_error(qp);
    queues_[{qp, !IS_RECEIVE}].is_moved_to_error = true;
}

void failing_requests::restart(const void *qp) {
    const std::lock_guard guard(mutex_);
    queue &sends = queues_[{qp, !IS_RECEIVE}];
    if (!sends.has_error)
        return;
    sends.has_error = false;
    sends.failing.reset();
    queues_[{qp, IS_RECEIVE}].has_error = false;
}

} // namespace coherdma::faults
