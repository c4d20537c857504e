// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Outcomes of single requests in the trials for siw.

#pragma once

#include "../../lib/rdmacm_loopback.hpp"

#include <cerrno>
#include <optional>
#include <string>

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

} // namespace verbs_test
