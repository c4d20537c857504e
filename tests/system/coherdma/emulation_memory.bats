#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Memory use of MRs on an emulated device.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"

setup() {
    export RDMAV_DRIVERS=$BUILD/provider/libcoherdma:$BUILD/provider/libcoherdma-observers COHERDMA_EMULATE=stale
}
run_registers() { # DRIVER WHAT...
    run -0 "$BUILD/tests/system/coherdma/emulation/registers" "$(device_fact "$1" DEVICE)" "${@:2}"
    echo "$output"
}
# expect_between MIN MAX NUMBER
expect_between() { awk -v a="$1" -v b="$2" -v n="$3" 'BEGIN { exit !(n >= a && n <= b) }'; }

# expect_copy: besides the memory itself its copy, and 13 % at most.
expect_copy() {
    local is='registered 128 MB: ([0-9.]+) % more in use, and (-?[0-9.]+) % afterwards'
    run_registers "$1" size 128
    [[ $output =~ $is ]]
    expect_between 100 113 "${BASH_REMATCH[1]}"
    expect_between -2 1 "${BASH_REMATCH[2]}"
}
@test "rxe: an MR of 128 MiB takes its copy and an eighth, until it is deregistered" { expect_copy rxe; }
@test "siw: an MR of 128 MiB takes its copy and an eighth, until it is deregistered" { expect_copy siw; }

# The guest has 576 MB: a second copy of the memory, for a moment, would be too much.
expect_no_second_copy() {
    run_registers "$1" size 200
    [[ $output == *'registered 200 MB'* ]]
}
@test "rxe: an MR of a third of the memory is registered" { expect_no_second_copy rxe; }
@test "siw: an MR of a third of the memory is registered" { expect_no_second_copy siw; }

# The page of each registration would be 1000 KB; the heap and the kernel's caches vary by some 100.
expect_no_growth() {
    run_registers "$1" cycles 250
    [[ $output =~ 'registered 250 times: '(-?[0-9]+)' KB more' ]]
    expect_between -500 500 "${BASH_REMATCH[1]}"
}
@test "rxe: 250 registrations do not leak" { expect_no_growth rxe; }
@test "siw: 250 registrations do not leak" { expect_no_growth siw; }

expect_out_of_memory() {
    run_registers "$1" until-refused
    [[ $output == *'out of memory for the device'?'s copy of a region of 67108864 bytes'* ]]
    [[ $output == *': Cannot allocate memory'* ]]
    [[ $output == *'succeeded after deregistration'* ]]
}
@test "rxe: ibv_reg_mr fails with a message when memory runs out" { expect_out_of_memory rxe; }
@test "siw: ibv_reg_mr fails with a message when memory runs out" { expect_out_of_memory siw; }

expect_sync_survives() {
    run_registers "$1" sync 2>&1
    [[ $output == *'coherdma: emulation: out of memory: a sync is incomplete'* ]]
    [[ $output == *'synced without memory' ]]
}
@test "rxe: a sync without memory does not end the process" { expect_sync_survives rxe; }
@test "siw: a sync without memory does not end the process" { expect_sync_survives siw; }

# In mode evict, which has a thread.
@test "rxe: the device can be opened again after memory ran out" {
    COHERDMA_EMULATE=evict:1 run_registers rxe open
    [[ $output == *'opened without memory' && $output != *'threads'* ]]
}

expect_fork_works() {
    run_registers "$1" fork
    [[ $output == *'the child has registered'*'the parent has registered'* ]]
}
@test "rxe: a forked child opens the device and registers memory" { expect_fork_works rxe; }
@test "siw: a forked child opens the device and registers memory" { expect_fork_works siw; }

# The program syncs nothing, so that the data are those of the registration.
@test "rxe: memory of an MR that its context ended is registered again, with new data" {
    run_registers rxe reopen "$(device_fact rxe GID_INDEX)" 2>&1
    [[ $output == *$'wrote 1, read 1\nwrote 2, read 2'* ]]
}

# The user-mode kernel has no huge pages: coherdma.emulation_huge_pages runs these in a QEMU guest.
expect_huge_pages() {
    [[ -w /proc/sys/vm/nr_hugepages ]] || skip 'this kernel has no huge pages'
    echo 8 >/proc/sys/vm/nr_hugepages
    run_registers "$1" huge
    [[ $output == *'registered parts of huge pages'* && $output != *'is not emulated'* ]]
}
# bats test_tags=huge_pages
@test "rxe: parts of huge pages are registered and emulated" { expect_huge_pages rxe; }
# bats test_tags=huge_pages
@test "siw: parts of huge pages are registered and emulated" { expect_huge_pages siw; }
