#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# coherdma check --late: a program that looks at data before their completion gets them without, and not with it.
# PROVIDER=stock: over the provider of rdma-core.

# shellcheck disable=SC2154 # bats' run sets stderr
bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"
tool=$BUILD/tools/coherdma
early=$BUILD/tests/system/check/corpus/early
corpus=$BUILD/tests/system/check/corpus/corpus

setup() {
    export TMPDIR=$BATS_TEST_TMPDIR COHERDMA_PROVIDER=$BUILD/provider/libcoherdma-rdmav34.so
    unset RDMAV_DRIVERS IBV_DRIVERS COHERDMA_SOFTRDMA
    [[ ${PROVIDER:-} == stock ]] || export RDMAV_DRIVERS=$BUILD/provider/libcoherdma
    DRIVER=${DRIVER:-rxe}
    device=("$DRIVER" "$(device_fact "$DRIVER" DEVICE)" "$(device_fact "$DRIVER" ADDRESS)")
}
teardown() { [[ -z $(find "$TMPDIR" -maxdepth 1 -name 'coherdma-check.*') ]]; }

# expect_late OPERATION: its data are there before the completion, but not with --late.
expect_late() {
    run -0 "$tool" check -- "$early" "$1" early "${device[@]}"
    [[ $output == *'the data are there'* ]]
    run -0 "$tool" check --late -- "$early" "$1" polled "${device[@]}"
    [[ $output == *'the data are there'* ]]
    run -3 "$tool" check --late -- "$early" "$1" early "${device[@]}"
    [[ $output == *'the data are not there'* ]]
}

@test "a receive is delivered at its completion" { expect_late receive; }
@test "a Read is delivered at its completion" { expect_late read; }

@test "a program that waits for bytes in memory never ends" {
    run -0 timeout 60 "$tool" check --ownership -- "$corpus" message_found_by_memory wrong "${device[@]}"
    run -0 timeout 60 "$tool" check --late -- "$corpus" message_found_by_memory corrected "${device[@]}"
    run -124 timeout 10 "$tool" check --late -- "$corpus" message_found_by_memory wrong "${device[@]}"
}

@test "with distinct keys" {
    run -3 "$tool" check --late --distinct-keys -- "$early" receive early "${device[@]}"
    run -0 "$tool" check --late --distinct-keys -- "$early" receive polled "${device[@]}"
}

@test "pages that are protected are delivered to" {
    run -0 "$tool" check --late --protect -- "$corpus" receive_cleared_after_post corrected "${device[@]}"
}

@test "an emulated device is refused" {
    COHERDMA_EMULATE=stale run -1 --separate-stderr "$tool" check --late -- "$early" receive polled "${device[@]}"
    [[ $stderr == *'data cannot be delivered late while COHERDMA_EMULATE is set'* ]]
}
