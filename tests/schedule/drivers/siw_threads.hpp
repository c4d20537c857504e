// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Programs over the siw driver in siw_threads.cpp, for the table in siw.cpp.
#pragma once

namespace siw_programs {

void event_leaves_room_in_the_cq();
void flush_is_in_order();
void batch_is_flushed_in_order();
void srq_is_posted_to_by_two_threads();
void failed_qp_leaves_the_srq_alone();
void cq_ex_is_polled_beside_destroy_and_post();
void qp_of_a_thread_domain_fails();
void parent_domains_are_counted();
void two_threads_move_a_qp_to_err();
void flush_follows_completions_of_the_kernel();
void late_close_keeps_the_order();
void peer_closes_the_connection();
void qp_is_destroyed_beside_completions_of_another();
void two_threads_arm_a_cq();
void completions_of_destroyed_qp_leave_room();

} // namespace siw_programs
