// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The cases: a function for each file of them.

#pragma once

#include "run.hpp"

#include <utility>
#include <vector>

namespace conform {

using case_list = std::vector<test_case>;

inline void add_case(case_list &cases, std::string name, std::function<void()> body) {
    cases.push_back({std::move(name), std::move(body)});
}

void add_ia(case_list &cases);
void add_ia_query(case_list &cases);
void add_pz(case_list &cases);
void add_lmr(case_list &cases);
void add_sync(case_list &cases);
void add_evd(case_list &cases);
void add_evd_wait(case_list &cases);
void add_evd_resize(case_list &cases);
void add_cno(case_list &cases);
void add_cno_fd(case_list &cases);
void add_ep_create(case_list &cases);
void add_ep_post(case_list &cases);
void add_ep_modify(case_list &cases);
void add_psp(case_list &cases);
void add_rsp(case_list &cases);
void add_cr(case_list &cases);
void add_connect(case_list &cases);
void add_disconnect(case_list &cases);
void add_dto(case_list &cases);
void add_dto_error(case_list &cases);
void add_srq(case_list &cases);
void add_context(case_list &cases);
void add_handle(case_list &cases);
void add_handle_argument(case_list &cases);
void add_handle_provider(case_list &cases);
void add_invalid(case_list &cases);
void add_invalid_connect(case_list &cases);
void add_invalid_ep(case_list &cases);

/// Of all files, in the order of their objects' lives.
case_list all_cases();
/// Reads the command line and runs the cases that it names. Returns the exit status.
int run_program(int argc, char **argv, case_list cases);

} // namespace conform
