#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The scheduler finds the fault of each example, and none in the right one.

bats_require_minimum_version 1.5.0

setup() {
    examples=$BUILD/tests/schedule/examples_schedule
}

# PROGRAM TEXT [OPTION]: a schedule fails with this text, in less than 2000.
fails_with() {
    run -1 "$examples" --schedules 2000 --program "$1" ${3:+"$3"}
    echo "$output"
    [[ ${lines[0]} == "FAILED $1: $2" ]]
}

# PROGRAM [NUMBER]: so many schedules do not fail, whether stores are late or not.
passes() {
    local num_schedules=${2:-500}
    passes_with "$1" "$num_schedules"
    passes_with "$1" "$num_schedules" --late-stores
}
passes_with() {
    run -0 "$examples" --schedules "$2" --program "$1" ${3:+"$3"}
    echo "$output"
    [[ $output == "ok     $1: $2 schedules of about "*' steps' ]]
}

# PROGRAM TEXT: as fails_with(), but only if stores are late.
fails_if_late() {
    passes_with "$1" 2000
    fails_with "$1" "$2" --late-stores
}
unordered='two threads access the same memory, and nothing orders them'

@test "an update between a load and a store is lost" { fails_with lost_update 'an update is lost'; }
@test "an update of memory that is not atomic is lost" { fails_with lost_plain_update 'an update is lost'; }
@test "an update under a lock is not lost" { passes locked_update 2000; }
@test "two locks in two orders: both threads and where they wait are shown" {
    fails_with locks_in_two_orders 'no thread can go on'
    [[ $(grep -c '^  thread [01] locks$' <<<"$output") == 2 ]]
    [[ $(grep -c '^    .*(examples.cpp:[0-9]*)$' <<<"$output") -ge 2 ]]
}
@test "a wake between a look and a wait is missed" { fails_with missed_wake 'no thread can go on'; }
@test "a fault that needs three switches" {
    fails_with reused_slot 'the slot has changed under its owner'
    [[ $output == *'the same with 3 decisions, at step'* || $output == *'the same with 4 decisions, at step'* ]]
}
@test "threads that wait for each other in loops" { fails_with endless_loops 'the threads go on without end'; }
@test "a thread that is not joined" { fails_with left_thread 'the program has ended before one of its threads'; }
@test "the program ends the process" { fails_with process_exits 'the process exits with status 0'; }
@test "a signal ends the process" { fails_with null_pointer 'killed by signal 11 (Segmentation fault)'; }
@test "time passes when all sleep, and only then" {
    passes sleeps 200
    ((SECONDS < 60)) # each schedule sleeps for two hours
}

@test "locks that are tried, or waited for until a deadline" {
    passes shared_lock_tried
    passes timed_lock
    fails_with update_under_shared_lock 'an update is lost'
    fails_with timed_lock_not_looked_at 'a time limit has passed'
}
@test "semaphores" {
    passes semaphore_of_1
    fails_with semaphore_of_2 'an update is lost'
}
@test "a function that is called once" {
    passes called_once
    passes static_variable
    fails_with called_once_if_not_begun 'used before it is initialized'
}
@test "barriers" {
    passes barrier_of_2
    fails_with barrier_of_1 'a thread goes on before the others come'
}
@test "every function that sleeps takes virtual time" {
    passes sleeps_in_all_ways
    ((SECONDS < 60)) # each schedule sleeps for an hour
}
@test "a descriptor is polled" {
    passes pipe_waited_for
    fails_with pipe_looked_at 'nothing to read'
}
@test "an epoll instance is waited for" {
    passes event_waited_for
    fails_with event_not_raised 'no thread can go on'
}
@test "a detached thread" {
    passes detached_thread
    fails_with detached_thread_waits 'no thread can go on'
}
@test "atomic variables are waited for" {
    passes atomic_wait
    fails_with atomic_wait_without_notify 'no thread can go on'
}
@test "a thread that calls pthread_exit()" {
    passes thread_exit
    fails_with thread_exit_with_lock 'no thread can go on'
}

@test "a deadline passes while others yield" {
    passes yields_until_ready
    passes looks_at_time 50
    fails_with yields_for_a_second 'the time was too short'
}
@test "a loop that waits without a yield" {
    passes spin_lock
    fails_with spin_lock_not_atomic 'an update is lost'
}

@test "a condition variable wakes without a reason, seldom" {
    passes condition_in_loop
    fails_with condition_without_loop 'woken too early'
}
@test "a weak compare-and-exchange fails by itself, seldom" {
    passes exchange_in_loop
    fails_with exchange_without_loop 'all fail'
}
@test "a time limit passes while others run, seldom" {
    fails_with sleep_instead_of_join 'the time was too short'
    fails_with condition_within_an_hour 'woken too early'
}

@test "memory is copied in two steps" {
    passes message_locked
    passes bytes_moved_up_and_down
    fails_with message_set 'a half of the message is read'
    fails_with message_moved 'a half of the message is read'
}

@test "memory that is not atomic needs an order" {
    passes message_released
    fails_if_late message_not_released "$unordered"
    [[ $output == *$'\n  thread 1 writes: '*' (memory_examples.cpp:'*$'\n  thread 0 reads: '*' (memory_examples.cpp:'* ]]
    fails_if_late message_not_acquired "$unordered"
    fails_with lost_plain_update "$unordered" --late-stores
    passes memory_used_again
}
@test "a load returns an older value" {
    passes no_load_returns_to_an_older_store
    fails_if_late relaxed_counter_is_late 'an old value'
    [[ $output == *$'\n'*' loads old '*'relaxed_counter_is_late (memory_examples.cpp:'* ]]
}
@test "a store is late until a fence that is sequentially consistent" {
    passes flags_seq_cst 2000
    local program
    for program in flags_without_fence flags_with_weak_fence flags_stored_seq_cst_only; do
        fails_if_late "$program" "no thread has seen the other's flag"
    done
}
@test "an exchange continues what was released before it, a store does not" {
    passes flag_exchanged_twice 2000
    fails_if_late flag_stored_twice "$unordered"
}
@test "two threads see two stores in two orders" {
    passes stores_in_one_order 2000
    fails_if_late stores_in_two_orders 'two orders of two stores'
}

@test "an atomic object keeps its stores when its neighbour is written, or a part of it" {
    passes neighbour_of_flag_written
    fails_if_late neighbour_of_late_flag_written 'an old value'
    passes half_of_word_released
}

@test "the end of a thread is in the schedule, and its memory is used again" {
    passes stack_used_again
    passes thread_local_memory_used_again
    fails_with update_at_end_of_thread_lost 'an update is lost'
}

@test "a static variable that is initialized in a late schedule" {
    local seed
    for seed in {1..20}; do # each in a process of its own
        run -0 "$examples" --program static_variable_of_some_schedules --late-stores --seed "$seed" --schedules 20
    done
}

@test "an exchange that fails is a load" {
    fails_if_late exchange_fails_with_old_value 'an old value'
    passes exchange_that_fails_loads
}

@test "a shared lock orders a reader before the next writer, not before the next reader" {
    passes writer_after_reader
    fails_if_late reader_after_reader "$unordered"
}

@test "a seed gives the same schedule always" {
    local program
    for program in reused_slot semaphore_of_2 spin_lock_not_atomic condition_within_an_hour exchange_without_loop; do
        is_the_same_always "$program"
        is_the_same_always "$program" --late-stores
    done
    is_the_same_always stores_in_two_orders --late-stores
}
# PROGRAM [OPTION]
is_the_same_always() {
    local seed first again i
    run -1 "$examples" --schedules 2000 --program "$1" ${2:+"$2"}
    seed=$(sed -n 's/^  seed \([0-9]*\),.*/\1/p' <<<"$output")
    first=$(steps_of "$seed" --program "$@")
    [[ $(wc -l <<<"$first") -ge 10 ]]
    for ((i = 0; i < 10; ++i)); do
        again=$(steps_of "$seed" --program "$@")
        [[ $again == "$first" ]]
    done
}
# SEED OPTION...: the failing schedule, without addresses.
steps_of() {
    run -1 "$examples" "${@:2}" --replay "$1"
    grep -oE '^ +[0-9]+ +[0-9]+  [a-z]+' <<<"$output"
}

@test "misuse is refused with the names of the programs" {
    run -2 "$examples" --program none
    [[ $output == *"no program 'none'; there are: lost_update"* ]]
    run -2 "$examples" --schedules many
    [[ $output == *"'many' is not a number"* ]]
    run -0 "$examples" --help
    [[ $output == 'Usage: '* ]]
}
