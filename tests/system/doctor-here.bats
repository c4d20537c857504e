#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# coherdma doctor on a machine without RDMA, and what it says to everybody.

bats_require_minimum_version 1.5.0

setup() {
    program=$BUILD/release/tools/coherdma
    if [[ -e /sys/class/infiniband ]]; then skip 'this machine has RDMA'; fi
}

@test "doctor: without RDMA in the kernel it says so, and what to type works" {
    run -1 --separate-stderr "$program" doctor
    [[ -z $stderr ]]
    echo "$output"
    [[ $output == "fail  RDMA in the kernel: "* ]]
    [[ $(grep -c ^fail <<<"$output") == 1 ]]
    [[ ${lines[-1]} == "Next: type  softrdma run -- ibv_devinfo" ]]
    PATH="$BATS_TEST_DIRNAME/../../scripts:$PATH" run -0 bash -c "${lines[-1]#Next: type  }"
    [[ $output == *PORT_ACTIVE* ]]
}

@test "doctor: a device asked for by name, where there is no RDMA" {
    run -1 --separate-stderr "$program" doctor --json rxe0
    [[ $(jq -r '.summary.next' <<<"$output") == softrdma* ]]
}

@test "doctor: 80 columns, and colours on a terminal only, unless NO_COLOR" {
    run -1 "$program" doctor
    [[ $output != *$'\e'* ]]
    (($(wc -L <<<"$output") <= 80))
    run -1 env -u NO_COLOR script -qec "'$program' doctor" /dev/null
    [[ $output == *$'\e['*fail* ]]
    run -1 env NO_COLOR=1 script -qec "'$program' doctor" /dev/null
    [[ $output != *$'\e['* ]]
}

@test "doctor: misuse is 2" {
    run -2 --separate-stderr "$program" doctor --nonsense
    [[ -z $output && $stderr == *nonsense* ]]
    run -0 "$program" doctor --help
}
