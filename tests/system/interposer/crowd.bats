#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Many threads, many processes, and programs with sanitizers, with the observer that counts. $PROVIDER and ATTACHED are
# as in interposer.bats.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/counts.bash"

setup() {
    programs=$BUILD/tests/system/interposer
    [[ ${PROVIDER:?} != coherdma ]] || use_our_provider
}

# run_crowd WHAT COUNT: each process writes its counts to a file of its own.
run_crowd() {
    # shellcheck disable=SC2046 # words
    run -0 timeout 240 $(observed crowd.%p "$programs/crowd" "$(device_fact rxe DEVICE)" "$(device_fact rxe GID_INDEX)" "$@")
}
# expect_crowd FILES NAME=COUNT...: that many files, each with these counts, and with all destroyed that was created.
expect_crowd() {
    local file num_files=0
    for file in "$BATS_TEST_TMPDIR"/crowd.*.count; do
        file=${file##*/}
        expect_counts "${file%.count}" unknown=0 failed=0 refused=0 outstanding=0 "${@:2}"
        expect_all_destroyed "${file%.count}" pd mr cq qp
        num_files=$((num_files + 1))
    done
    ((num_files == $1))
}
@test "rxe: 64 threads with QPs of their own" {
    run_crowd threads 64
    expect_crowd 1 opens=1 qp.created=128 sends=1280 completions=2560
}
@test "rxe: 100 children of fork(), each of which opens the device, and the parent" {
    run_crowd children 100
    expect_crowd 101 qp.created=2 sends=5 completions=10
}
@test "rxe: children that are killed at any moment leave the parent as it is" {
    run_crowd killed 60
    expect_crowd 1 opens=1 qp.created=2 sends=5 completions=10
}

# run_sanitized PROGRAM: the sanitizer finds no fault.
run_sanitized() {
    local command
    command="$programs/$1 $(device_fact rxe DEVICE) $(device_fact rxe GID_INDEX)"
    # shellcheck disable=SC2046 # words
    ASAN_OPTIONS=verify_asan_link_order=0 run -0 timeout 240 $(observed "$1.%p" "$command threads 16")
    # shellcheck disable=SC2046 # words
    ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0 run -0 timeout 240 $(observed "$1.%p" "$command children 4")
    [[ -z $output ]]
}
@test "rxe: a program with AddressSanitizer" { run_sanitized crowd_address; }
@test "rxe: a program with ThreadSanitizer" { run_sanitized crowd_thread; }
