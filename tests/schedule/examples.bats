#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The scheduler finds the fault of each example, and none in the right one.

bats_require_minimum_version 1.5.0

setup() {
    examples=$BUILD/tests/schedule/examples_schedule
}

# PROGRAM TEXT: a schedule fails with this text, in less than 2000.
fails_with() {
    run -1 "$examples" --schedules 2000 --program "$1"
    echo "$output"
    [[ ${lines[0]} == "FAILED $1: $2" ]]
}

# PROGRAM [NUMBER]: so many schedules do not fail.
passes() {
    local num_schedules=${2:-500}
    run -0 "$examples" --schedules "$num_schedules" --program "$1"
    echo "$output"
    [[ $output == "ok     $1: $num_schedules schedules of about "*' steps' ]]
}

@test "an update between a load and a store is lost" { fails_with lost_update 'an update is lost'; }
@test "an update of memory that is not atomic is lost" { fails_with lost_plain_update 'an update is lost'; }
@test "an update under a lock is not lost" {
    run -0 "$examples" --schedules 2000 --program locked_update
    [[ $output == 'ok     locked_update: 2000 schedules of about '*' steps' ]]
}
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
@test "a signal ends the process" { fails_with null_pointer 'killed by signal 11 (Segmentation fault)'; }
@test "time passes when all sleep, and only then" {
    run -0 "$examples" --schedules 200 --program sleeps
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

@test "a seed gives the same schedule always" {
    local program seed first again i
    for program in reused_slot semaphore_of_2 spin_lock_not_atomic condition_within_an_hour exchange_without_loop; do
        run -1 "$examples" --schedules 2000 --program "$program"
        seed=$(sed -n 's/^  seed \([0-9]*\),.*/\1/p' <<<"$output")
        first=$(steps_of "$program" "$seed")
        [[ $(wc -l <<<"$first") -ge 10 ]]
        for ((i = 0; i < 10; ++i)); do
            again=$(steps_of "$program" "$seed")
            [[ $again == "$first" ]]
        done
    done
}
# The failing schedule of a program and seed, without addresses.
steps_of() {
    run -1 "$examples" --program "$1" --replay "$2"
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
