// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

// completions.cpp
void each_wr_id_comes_back_once(void **);
void each_extended_cq_is_polled_by_its_functions(void **);
void requests_of_an_srq_come_back(void **);
void data_of_a_receive_come_with_its_completion(void **);
void unsignaled_requests_have_no_completion(void **);
void failure_flushes_all_requests(void **);

// refused.cpp
void bad_wr_is_the_first_refused(void **);
void refusal_without_bad_wr(void **);
void bad_wr_is_not_wanted(void **);
void depth_and_limits_are_the_drivers(void **);
void object_in_use_survives_destroy(void **);

// memory_windows.cpp
void bind_mw_by_ibv_post_send(void **);
void bind_mw_by_internal_function(void **);
void refused_bind_mw(void **);
void mw_of_type_2(void **);

// reuse.cpp
void completion_outlives_its_qp(void **);
void address_of_a_qp_is_used_again(void **);
void qp_is_reset_and_used_again(void **);
void threads_use_addresses_again(void **);
void address_of_a_cq_is_used_again_at_once(void **);
void address_of_a_qp_is_used_again_at_once(void **);
void cq_is_polled_while_destroy_fails(void **);
void completion_outlives_its_srq(void **);

// wr_api.cpp
void wr_functions_and_ibv_post_send(void **);
void qp_of_a_function_of_the_driver(void **);
void aborted_requests_do_not_exist(void **);
void failed_batch_posts_nothing(void **);
void all_opcodes_of_wr_functions(void **);
void datagrams_by_both_interfaces(void **);
