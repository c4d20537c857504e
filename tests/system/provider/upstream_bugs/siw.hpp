// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Outcomes of single requests in the trials for siw.

#pragma once

#include "../../lib/rdmacm_loopback.hpp"

#include <cerrno>
#include <optional>
#include <string>

namespace verbs_test {

// A request is refused: with that error, a positive number as of all verbs, and named.
inline outcome check_refusal(int error, bool is_bad_wr, int expected = EINVAL) {
    return {error == expected && is_bad_wr,
            concat(error == 0 ? "accepted" : concat("error ", error),
                   is_bad_wr ? ", named" : ", not named")};
}

// After a request that was refused, the queue goes on: a write arrives.
inline bool write_succeeds(const rdmacm_loopback &loopback) {
    const endpoint &requester = loopback.requester;
    ibv_sge sge = requester.make_sge(8);
    ibv_send_wr write = requester.make_wr(77, IBV_WR_RDMA_WRITE, sge, loopback.responder);
    if (requester.post_send(write) != 0)
        return false;
    const auto wc = requester.send_cq.wait_completion(trial_timeout());
    return wc && wc->wr_id == 77 && wc->status == IBV_WC_SUCCESS;
}

inline std::string status_text(const std::optional<ibv_wc> &wc) {
    return wc ? ibv_wc_status_str(wc->status) : "no completion";
}

} // namespace verbs_test
