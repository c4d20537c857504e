// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The cases, and the settings of the command line.

#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace conform {

/// One thing that librpma promises. It is named OBJECT.WHAT.
struct test_case {
    std::string name;
    std::function<void()> body;
};
using case_list = std::vector<test_case>;
inline void add_case(case_list &cases, std::string name, std::function<void()> body) {
    cases.push_back({std::move(name), std::move(body)});
}

struct test_settings {
    std::string device;         ///< the RDMA device
    std::string address;        ///< its IPv4 address
    std::string unused_address; ///< an address of its subnet that no host has
    std::string port;           ///< of the case that runs; each has its own
    unsigned timeout_s = 60;    ///< that a case may take
};
test_settings &settings();

/// Tries the cases, each in a process of its own, and writes TAP. Returns the exit status.
int run_cases(std::span<const test_case> cases);

void add_text(case_list &cases);
void add_log(case_list &cases);
void add_null(case_list &cases);
void add_null_operation(case_list &cases);
void add_cfg(case_list &cases);
void add_peer_cfg(case_list &cases);
void add_remote_mr(case_list &cases);

void add_context(case_list &cases);
void add_peer(case_list &cases);
void add_mr(case_list &cases);
void add_advise(case_list &cases);
void add_ep(case_list &cases);
void add_request(case_list &cases);
void add_private_data(case_list &cases);
void add_connect(case_list &cases);
void add_event(case_list &cases);
void add_cq(case_list &cases);
void add_shared_channel(case_list &cases);
void add_read_write(case_list &cases);
void add_operation_error(case_list &cases);
void add_flush(case_list &cases);
void add_send(case_list &cases);
void add_srq(case_list &cases);

} // namespace conform
