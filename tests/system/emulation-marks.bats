#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Programs with a played device that are not alone with their memory: tools that watch what they do
# with it report the access itself that a sync is missing for; processes share it.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/lib.bash"

setup() {
    export RDMAV_DRIVERS=$BUILD/release/provider/libcoherdma COHERDMA_EMULATE=stale
    here=$BUILD/release/tests/system/emulation
}

# The line of the access in the program.
reported() { [[ $output =~ look.*accessed.cpp:[0-9]+ ]]; }

# asan DRIVER OPTION...: accessed, with the address sanitizer in it
asan() {
    [[ -x $here/accessed_asan ]] || skip 'the compiler has no address sanitizer'
    run timeout 60 "$here/accessed_asan" "${@:2}" "$(of "$1" ADDRESS)"
    echo "$output"
}
# memcheck DRIVER OPTION...: accessed, under valgrind
memcheck() {
    run timeout 120 valgrind -q --error-exitcode=9 --exit-on-first-error=yes \
        --child-silent-after-fork=yes "$here/accessed" "${@:2}" "$(of "$1" ADDRESS)"
    echo "$output"
}

silent() { # TOOL DRIVER
    local mode
    for mode in stale poison; do
        COHERDMA_EMULATE=$mode "$1" "$2"
        [[ $status == 0 && $output != *ERROR* ]]
        COHERDMA_EMULATE=$mode "$1" "$2" --spin
        [[ $status == 0 ]]
    done
}
found() { # TOOL DRIVER WORDS
    "$1" "$2" --without
    [[ $status != 0 && $output == *"$3"* ]]
    reported
}
spins() { # TOOL DRIVER WORDS: looks until a flag changes, and never syncs
    "$1" "$2" --spin --without
    [[ $status != 0 && $output == *"$3"* ]]
    reported
}

@test "asan: a program that syncs, rxe" { silent asan rxe; }
@test "asan: a program that syncs, siw" { silent asan siw; }
@test "asan: an access without a sync, rxe" { found asan rxe use-after-poison; }
@test "asan: an access without a sync, siw" { found asan siw use-after-poison; }
@test "asan: a flag that is waited for without a sync, rxe" { spins asan rxe use-after-poison; }
@test "asan: a flag that is waited for without a sync, siw" { spins asan siw use-after-poison; }
@test "asan: nomarks" {
    COHERDMA_EMULATE_OPTIONS=nomarks asan rxe --without
    [[ $status == 1 && $output != *use-after-poison* ]]
}

@test "valgrind: a program that syncs, rxe" { silent memcheck rxe; }
@test "valgrind: a program that syncs, siw" { silent memcheck siw; }
@test "valgrind: an access without a sync, rxe" { found memcheck rxe uninitialised; }
@test "valgrind: an access without a sync, siw" { found memcheck siw uninitialised; }
@test "valgrind: a flag that is waited for without a sync, rxe" { spins memcheck rxe uninitialised; }

shared() { # DRIVER: memory that two processes have registered is one for the device
    local mode address
    address=$(of "$1" ADDRESS)
    for mode in stale poison evict:1 evict:2 through; do
        run env COHERDMA_EMULATE_EXIT=7 COHERDMA_EMULATE=$mode timeout 60 "$here/shared" "$address"
        echo "$mode: $output"
        [[ $status == 0 && $output == *"read right, written right"* ]]
    done
    for mode in stale poison; do
        run env COHERDMA_EMULATE=$mode timeout 60 "$here/shared" --without "$address"
        echo "$mode: $output"
        [[ $status == 1 && $output == *"read wrong, written wrong"* ]]
        [[ $output == *"UNSYNCED READ"*"UNSYNCED WRITE"* ]]
    done
    run find /dev/shm -name 'coherdma-emulation-*-*-*'
    echo "$output"
    [[ -z $output ]]
}
@test "two processes share memory: rxe" { shared rxe; }
@test "two processes share memory: siw" { shared siw; }
