// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Who has cases: a function for each file of them.

#pragma once

#include "run.hpp"

#include <vector>

namespace conform {

using case_list = std::vector<test_case>;

void add_ia(case_list &to);
void add_ia_query(case_list &to);
void add_pz(case_list &to);
void add_lmr(case_list &to);
void add_sync(case_list &to);
void add_evd(case_list &to);
void add_evd_wait(case_list &to);
void add_evd_resize(case_list &to);
void add_cno(case_list &to);
void add_cno_fd(case_list &to);
void add_ep_create(case_list &to);
void add_ep_post(case_list &to);
void add_ep_modify(case_list &to);
void add_psp(case_list &to);
void add_rsp(case_list &to);
void add_cr(case_list &to);
void add_connect(case_list &to);
void add_disconnect(case_list &to);
void add_dto(case_list &to);
void add_dto_error(case_list &to);
void add_srq(case_list &to);
void add_context(case_list &to);
void add_handle(case_list &to);

} // namespace conform
