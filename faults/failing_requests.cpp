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

void remove_keys(std::vector<ibv_sge> &sges) {
    // The device must look at the key.
    const bool has_data =
        std::any_of(sges.begin(), sges.end(), [](const ibv_sge &sge) { return sge.length != 0; });
    if (!has_data)
        sges.assign(1,
                    {.addr = reinterpret_cast<std::uintptr_t>(&any_data), .length = 1, .lkey = 0});
    for (ibv_sge &sge : sges)
        sge.lkey = NO_KEY;
}

template <class wr_type>
void set_sges(wr_type &wr, std::vector<ibv_sge> &sges) {
    sges.assign(wr.sg_list, wr.sg_list + std::max(wr.num_sge, 0));
    remove_keys(sges);
    wr.sg_list = sges.data();
    wr.num_sge = static_cast<int>(sges.size());
}

constexpr bool IS_RECEIVE = true;

} // namespace

void failing_requests::add_srq(const void *srq) {
    const std::lock_guard guard(mutex_);
    srqs_.insert(srq);
}

bool failing_requests::is_srq(const void *queue) {
    const std::lock_guard guard(mutex_);
    return srqs_.contains(queue);
}

failing_requests::failing *failing_requests::add(const interposer::request &posted,
                                                 const fault &cause) {
    const auto [it, is_new] =
        failing_.try_emplace({posted.queue, posted.is_receive},
                             failing{.cause = &cause, .number = posted.number, .sges = {}});
    return is_new ? &it->second : nullptr; // a map's elements stay where they are
}

bool failing_requests::begin(const interposer::request &posted, ibv_send_wr &wr,
                             const fault &cause) {
    const std::lock_guard guard(mutex_);
    failing *const added = add(posted, cause);
    if (added == nullptr)
        return false;
    switch (wr.opcode) {
    case IBV_WR_LOCAL_INV:
        wr.invalidate_rkey = NO_KEY;
        break;
    case IBV_WR_BIND_MW:
        wr.bind_mw.rkey = NO_KEY;
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
        set_sges(wr, added->sges);
        break;
    default: // of ibv_wr_flush() and ibv_wr_atomic_write(), which name no memory of the program
        wr.wr.rdma.rkey = NO_KEY;
    }
    return true;
}

bool failing_requests::begin(const interposer::request &posted, ibv_recv_wr &wr,
                             const fault &cause) {
    const std::lock_guard guard(mutex_);
    failing *const added = add(posted, cause);
    if (added != nullptr)
        set_sges(wr, added->sges);
    return added != nullptr;
}

failing_requests::result failing_requests::complete(const interposer::request &completed,
                                                    ibv_wc &wc, const fault *&cause) {
    const std::lock_guard guard(mutex_);
    const auto match = failing_.find({completed.queue, completed.is_receive});
    if (match == failing_.end())
        return result::NOTHING;
    failing &known = match->second;
    cause = known.cause;
    if (wc.status == IBV_WC_SUCCESS) {
        if (completed.number != known.number)
            return result::NOTHING;
        failing_.erase(match);
        return result::SUCCEEDED;
    }
    const bool is_first = !std::exchange(known.has_failed, true);
    wc.status = is_first ? static_cast<ibv_wc_status>(cause->error) : IBV_WC_WR_FLUSH_ERR;
    // A QP stays in the error state; the SRQ serves other QPs.
    if (completed.number == known.number && srqs_.contains(completed.queue))
        failing_.erase(match);
    return is_first ? result::FAILED : result::NOTHING;
}

const fault *failing_requests::refuse(const interposer::request &refused) {
    const std::lock_guard guard(mutex_);
    const auto match = failing_.find({refused.queue, refused.is_receive});
    if (match == failing_.end() || match->second.number != refused.number)
        return nullptr;
    const fault *const cause = match->second.cause;
    failing_.erase(match);
    return cause;
}

void failing_requests::forget(const void *queue) {
    const std::lock_guard guard(mutex_);
    failing_.erase({queue, IS_RECEIVE});
    failing_.erase({queue, !IS_RECEIVE});
    srqs_.erase(queue);
}

} // namespace coherdma::faults
