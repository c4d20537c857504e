// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Send requests made from a few parameters.

#pragma once

#include "endpoints.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace differential {

/// The lengths of the SGEs. num_sge differs from their number in requests that are invalid.
struct shape {
    std::vector<std::uint32_t> lengths;
    int num_sge = static_cast<int>(lengths.size());
    bool wrong_lkey = false;

    std::string name() const;
};

/// A WR of the requester of a pair, with its SGEs.
struct request {
    std::vector<ibv_sge> sg_list;
    ibv_send_wr wr{};
};

std::string_view opcode_name(int opcode);
std::string flags_name(unsigned flags);
inline constexpr int num_opcodes = 16;

/// Whether the responder needs a receive for it.
bool consumes_recv(int opcode);

/// Also binds the MW of a or b, if the opcode needs one.
request make_request(qp_pair &qps, int opcode, unsigned flags, const shape &shape,
                     std::uint64_t wr_id);
/// Posts by ibv_wr_*. Returns the result of ibv_wr_complete().
int post_extended(qp_pair &qps, const std::vector<request> &requests);

} // namespace differential
