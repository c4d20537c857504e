#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# coherdma check of programs without symbols, that crash, are killed, or have many children or threads: the
# report says so, and nothing is left behind.

# shellcheck disable=SC2154 # bats' run sets stderr
bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"
tool=$BUILD/tools/coherdma
many=$BUILD/tests/system/check/corpus/many

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    export TMPDIR=$BATS_TEST_TMPDIR COHERDMA_PROVIDER=$BUILD/provider/libcoherdma-rdmav34.so
    unset RDMAV_DRIVERS IBV_DRIVERS COHERDMA_SOFTRDMA
    DRIVER=${DRIVER:-rxe}
    device=("$DRIVER" "$(device_fact "$DRIVER" DEVICE)" "$(device_fact "$DRIVER" ADDRESS)")
}
teardown() { [[ -z $(find "$TMPDIR" -maxdepth 1 -name 'coherdma-check.*') ]]; }

# run_check STATUS COMMAND...: the report is in $output, other messages in $stderr.
run_check() {
    local status=$1
    shift
    run "-$status" --separate-stderr "$tool" check --ownership --json -- "$@"
}
count_of() { jq "[.places[] | select(.kind == \"$1\") | .count] | add" <<<"$output"; }

@test "a program without symbols: the place is an offset in its file" {
    strip -o stripped "$many"
    run_check 1 ./stripped children 1 "${device[@]}"
    [[ $(count_of dereg-while-outstanding) == 1 ]]
    jq -e '.places[0].frame | test("stripped\\+0x[0-9a-f]+\\)$")' <<<"$output"
}

@test "100 children: each has its findings and its summary" {
    run_check 1 "$many" children 100 "${device[@]}"
    [[ $(count_of dereg-while-outstanding) == 100 ]]
    jq -e '[.processes[] | select(.complete and .errors == 1)] | length == 100' <<<"$output"
}

@test "64 threads: each finding is counted, and printed once" {
    run_check 1 "$many" threads 64 "${device[@]}"
    [[ $(count_of dereg-while-outstanding) == 64 ]]
    [[ $(grep -c 'dereg-while-outstanding: MR' <<<"$stderr") == 1 ]]
}

@test "a program that crashes: its status, what was seen before, and a note" {
    run_check 134 "$many" crash "${device[@]}"
    [[ $(count_of dereg-while-outstanding) == 1 ]]
    [[ $stderr == *"ended without a summary"* ]]
}

@test "a program that is killed at any moment: its status, and a note" {
    local ms
    for ms in 5 20 50 100 150 200 250 300 400 500; do
        run_check 137 bash -c '"$@" & sleep "0.$(printf %03d "$0")"; kill -KILL $!; wait $!' "$ms" "$many" forever "${device[@]}"
        jq -e '.summary.complete | not' <<<"$output" || jq -e '.processes | length == 0' <<<"$output"
    done
}

@test "a program that SIGTERM ends: its status, and a summary" {
    run_check 143 bash -c '"$@" & sleep 1; kill -TERM $!; wait $!' bash "$many" forever "${device[@]}"
    jq -e '.summary.complete' <<<"$output"
    [[ $(count_of dereg-while-outstanding) -gt 0 && $stderr == *"coherdma check: "*" error"* ]]
}

@test "the thread sanitizers of gcc and clang see the device's accesses" {
    local compiler
    for compiler in gcc clang; do
        [[ -n $(type -P $compiler) ]] || continue
        $compiler -g -fsanitize=thread "$BATS_TEST_DIRNAME/../../../examples/courier.c" -o courier -pthread -lrdmacm -libverbs
        run_check 0 ./courier "${device[2]}"
        run_check 66 ./courier --peek "${device[2]}"
        [[ $stderr == *"data race"*"receive_messages"*"RDMA device"* ]]
    done
}
