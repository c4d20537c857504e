// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// How the trials for siw judge requests: refused, completed or flushed.

#pragma once

#include "../../lib/rdmacm_loopback.hpp"

#include <cerrno>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace verbs_test {

/// Right: the request was refused with the expected error (positive, as of all verbs), and bad_wr
/// was this request. error, is_bad_wr: what the post returned.
inline outcome judge_refusal(int error, bool is_bad_wr, int expected = EINVAL) {
    return {error == expected && is_bad_wr,
            concat(error == 0 ? "accepted" : concat("error ", error),
                   is_bad_wr ? ", in bad_wr" : ", not in bad_wr")};
}

/// Whether the requester's queue still works, for example after a refused request: an RDMA Write
/// completes, with no completion before it.
inline bool write_succeeds(const rdmacm_loopback &loopback) {
    constexpr std::uint64_t write_wr_id = 77;
    const endpoint &requester = loopback.requester;
    ibv_sge sge = requester.make_sge(8);
    ibv_send_wr write = requester.make_wr(write_wr_id, IBV_WR_RDMA_WRITE, sge, loopback.responder);
    if (requester.post_send(write) != 0)
        return false;
    const auto wc = requester.send_cq.wait_completion(trial_timeout());
    return wc && wc->wr_id == write_wr_id && wc->status == IBV_WC_SUCCESS;
}

inline std::string status_text(const std::optional<ibv_wc> &wc) {
    return wc ? ibv_wc_status_str(wc->status) : "no completion";
}

// Right: the WR, of a kind that a provider need not support, is refused, or it completes. After a
// refusal or a success the QP must still work; an error ends the connection, as iWARP demands.
inline outcome expect_success_or_refusal(const rdmacm_loopback &loopback, ibv_send_wr &wr) {
    bool is_bad_wr = false;
    const int error = loopback.requester.post_send(wr, &is_bad_wr);
    const bool is_verbs_error = error == 0 || (error > 0 && is_bad_wr);
    std::string seen = error != 0 ? judge_refusal(error, is_bad_wr).seen : "";
    bool connection_ended = false;
    if (error == 0) {
        const auto wc = loopback.requester.send_cq.wait_completion(trial_timeout());
        seen = status_text(wc);
        connection_ended = wc && wc->status != IBV_WC_SUCCESS;
        if (!wc)
            return {false, seen};
    }
    if (connection_ended)
        return {true, seen};
    const bool is_usable = write_succeeds(loopback);
    return {is_verbs_error && is_usable,
            seen + (is_usable ? ", later requests work" : ", later requests do not work")};
}

// Right: the CQ reports these WRs of the QP, flushed and in this order, and nothing else.
inline outcome expect_flushed(const completion_queue &cq, const ibv_qp *qp,
                              const std::vector<std::uint64_t> &wr_ids) {
    for (const std::uint64_t wr_id : wr_ids) {
        const auto wc = cq.wait_completion(trial_timeout());
        if (!wc)
            return {false, concat("number ", wr_id, " never completes")};
        if (wc->wr_id != wr_id || wc->status != IBV_WC_WR_FLUSH_ERR || wc->qp_num != qp->qp_num)
            return {false,
                    concat("number ", wc->wr_id, " of QP ", wc->qp_num, " for number ", wr_id,
                           " of QP ", qp->qp_num, ": ", ibv_wc_status_str(wc->status))};
    }
    const auto extra_wc = cq.wait_completion(absence_timeout);
    return {!extra_wc,
            extra_wc ? concat("then number ", extra_wc->wr_id, ", too") : "all flushed, in order"};
}

} // namespace verbs_test
