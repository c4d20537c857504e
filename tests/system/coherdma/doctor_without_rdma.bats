#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# coherdma doctor on a machine without RDMA, and its options.

bats_require_minimum_version 1.5.0

setup() {
    program=$BUILD/tools/coherdma
    if [[ -e /sys/class/infiniband ]]; then skip 'this machine has RDMA'; fi
}

@test "doctor reports a kernel without RDMA, and its suggestion works" {
    run -1 --separate-stderr "$program" doctor
    [[ -z $stderr ]]
    echo "$output"
    [[ $output == "fail  RDMA in the kernel: "* ]]
    [[ $(grep -c ^fail <<<"$output") == 1 ]]
    [[ $(grep -c '^      fix: ' <<<"$output") == $(grep -cE '^(warn|fail)' <<<"$output") ]]
    [[ ${lines[-1]} == "fix: softrdma run -- ibv_devinfo" ]]
    PATH="$BATS_TEST_DIRNAME/../../../scripts:$PATH" run -0 bash -c "${lines[-1]#fix: }"
    [[ $output == *PORT_ACTIVE* ]]
}

@test "doctor DEVICE --json without RDMA suggests softrdma" {
    run -1 --separate-stderr "$program" doctor --json rxe0
    [[ $(jq -r '.summary.next' <<<"$output") == softrdma* ]]
}

@test "doctor prints 80 columns, with colors on a terminal only, unless NO_COLOR is set" {
    run -1 "$program" doctor
    [[ $output != *$'\e'* ]]
    (($(wc -L <<<"$output") <= 80))
    run -1 env -u NO_COLOR script -qec "'$program' doctor" /dev/null
    [[ $output == *$'\e['*fail* ]]
    run -1 env NO_COLOR=1 script -qec "'$program' doctor" /dev/null
    [[ $output != *$'\e['* ]]
}

@test "doctor: misuse is status 2" {
    run -2 --separate-stderr "$program" doctor --bogus
    [[ -z $output && $stderr == *bogus* ]]
    run -0 "$program" doctor --help
}
