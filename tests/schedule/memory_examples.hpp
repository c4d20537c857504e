// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What the examples share, and those of memory_examples.cpp, for the table in examples.cpp.
#pragma once

#include <thread>

namespace examples {

template <typename function_type>
void run_in_two_threads(const function_type &function) {
    std::thread other(function);
    function();
    other.join();
}

void message_released();
void message_not_released();
void message_not_acquired();
void relaxed_counter_is_late();
void no_load_returns_to_an_older_store();
void flags_seq_cst();
void flags_without_fence();
void flags_with_weak_fence();
void flags_stored_seq_cst_only();
void flag_exchanged_twice();
void flag_stored_twice();
void stores_in_one_order();
void stores_in_two_orders();
void memory_used_again();
void neighbour_of_flag_written();
void neighbour_of_late_flag_written();
void half_of_word_released();
void stack_used_again();
void thread_local_memory_used_again();
void update_at_end_of_thread_lost();
void static_variable_of_some_schedules();
void exchange_fails_with_old_value();
void exchange_that_fails_loads();
void writer_after_reader();
void reader_after_reader();

} // namespace examples
