#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# ASan and valgrind report the access that lacks a sync on an emulated device; processes that share memory share its
# emulation.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"

setup() {
    export RDMAV_DRIVERS=$BUILD/provider/libcoherdma:$BUILD/provider/libcoherdma-observers COHERDMA_EMULATE=stale
    folder=$BUILD/tests/system/coherdma/emulation
}

# expect_line: of the access in the program.
expect_line() { [[ $output =~ read_data.*accessed.cpp:[0-9]+ ]]; }

# asan DRIVER OPTION...: runs accessed, built with ASan.
asan() {
    [[ -x $folder/accessed_asan ]] || skip 'the compiler has no address sanitizer'
    run "$folder/accessed_asan" "${@:2}" "$(device_fact "$1" ADDRESS)"
    echo "$output"
}
# memcheck DRIVER OPTION...: runs accessed under valgrind.
memcheck() {
    run valgrind -q --vgdb=no --leak-check=no --read-inline-info=no --error-exitcode=9 --exit-on-first-error=yes \
        --child-silent-after-fork=yes "$folder/accessed" "${@:2}" "$(device_fact "$1" ADDRESS)"
    echo "$output"
}

expect_no_report() { # TOOL DRIVER
    COHERDMA_EMULATE=poison "$1" "$2" --both
    [[ $status == 0 && $output == *synced* && $output != *ERROR* ]]
}
expect_report() { # TOOL DRIVER TEXT: of the access without a sync, after those with one
    "$1" "$2" --both --without
    [[ $status != 0 && $output == *synced*"$3"* && ${output%%synced*} != *"$3"* ]]
    expect_line
}
expect_report_of_polling() { # TOOL DRIVER TEXT: of a program that polls a flag without a sync
    "$1" "$2" --spin --without
    [[ $status != 0 && $output == *"$3"* ]]
    expect_line
}

@test "rxe: asan reports nothing in a program that syncs" { expect_no_report asan rxe; }
@test "siw: asan reports nothing in a program that syncs" { expect_no_report asan siw; }
@test "rxe: asan reports an access without a sync, and none with one" { expect_report asan rxe use-after-poison; }
@test "siw: asan reports an access without a sync, and none with one" { expect_report asan siw use-after-poison; }
@test "rxe: asan reports a flag polled without a sync" { expect_report_of_polling asan rxe use-after-poison; }
@test "siw: asan reports a flag polled without a sync" { expect_report_of_polling asan siw use-after-poison; }
@test "rxe: asan reports nothing with COHERDMA_EMULATE_OPTIONS=nomarks" {
    COHERDMA_EMULATE_OPTIONS=nomarks asan rxe --without
    [[ $status == 1 && $output != *use-after-poison* ]]
}

@test "rxe: valgrind reports nothing in a program that syncs" { expect_no_report memcheck rxe; }
@test "siw: valgrind reports nothing in a program that syncs" { expect_no_report memcheck siw; }
@test "rxe: valgrind reports an access without a sync, and none with one" { expect_report memcheck rxe uninitialised; }
@test "siw: valgrind reports an access without a sync, and none with one" { expect_report memcheck siw uninitialised; }
@test "rxe: valgrind reports a flag polled without a sync" { expect_report_of_polling memcheck rxe uninitialised; }

expect_shared_memory() { # DRIVER: memory that two processes have registered is one for the device
    local mode address
    address=$(device_fact "$1" ADDRESS)
    for mode in stale poison evict:1 evict:2 passthrough; do
        run env COHERDMA_EMULATE_EXIT=7 COHERDMA_EMULATE=$mode "$folder/shared" "$address"
        echo "$mode: $output"
        [[ $status == 0 && $output == *"read right, written right"* ]]
    done
    for mode in stale poison; do
        run env COHERDMA_EMULATE=$mode "$folder/shared" --without "$address"
        echo "$mode: $output"
        [[ $status == 1 && $output == *"read wrong, written wrong"* ]]
        [[ $output == *"UNSYNCED READ"*"UNSYNCED WRITE"* ]]
    done
    run find /dev/shm -name 'coherdma-emulation-*-*-*'
    echo "$output"
    [[ -z $output ]]
}
@test "rxe: syncs of two processes that share memory count for both" { expect_shared_memory rxe; }
@test "siw: syncs of two processes that share memory count for both" { expect_shared_memory siw; }
