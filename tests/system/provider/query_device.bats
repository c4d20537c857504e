#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# coherdmadv_query_device() with soft devices: over our provider, emulated, and over the stock provider; and
# how coherdma explain shows it. Needs a softrdma guest with both drivers.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"

tool=$BUILD/tools/coherdma

setup() {
    unset RDMAV_DRIVERS IBV_DRIVERS COHERDMA_EMULATE
    line=$(getconf LEVEL1_DCACHE_LINESIZE)
}

query() { "$BUILD/tests/system/provider/query_device" "$(device_fact "$1" DEVICE)"; } # DRIVER
# explain DRIVER: the deciding rule, what it read, and its coherency.
explain() {
    "$tool" explain "$(device_fact "$1" DEVICE)" --json |
        jq -r '.rules[] | select(.decided) | "\(.rule): \(.source): \(.value): \(.coherency)"'
}

expect_coherent() { # DRIVER
    use_our_provider
    run -0 --separate-stderr query "$1"
    [[ $output == "$1 coherent mode '' line $line: the CPU moves the data of a software device" ]]
    [[ $(explain "$1") == "software: coherdma's provider: driver $1: coherent" ]]
    expect_served "$1" 2
}
@test "rxe: our provider reports a coherent device" { expect_coherent rxe; }
@test "siw: our provider reports a coherent device" { expect_coherent siw; }

expect_emulated() { # DRIVER
    use_our_provider
    export COHERDMA_EMULATE=stale COHERDMA_EMULATE_LINE=128 COHERDMA_EMULATE_LOG=$BATS_TEST_TMPDIR/log.%p
    run -0 --separate-stderr query "$1"
    [[ $output == "$1 non-coherent mode 'stale' line 128: coherdma's provider emulates a non-coherent device" ]]
    # An administrator's setting does not apply to the emulated device.
    [[ $(COHERDMA_COHERENT=yes explain "$1") == "emulation: coherdma's provider: mode stale: non-coherent" ]]
    COHERDMA_EMULATE=off run -0 --separate-stderr query "$1"
    [[ $output == "$1 coherent "* ]]
}
@test "rxe: our provider reports an emulated device and its mode" { expect_emulated rxe; }
@test "siw: our provider reports an emulated device and its mode" { expect_emulated siw; }

expect_refused() { # DRIVER
    run -0 --separate-stderr query "$1"
    [[ $output == "refused: Operation not supported: $(device_fact "$1" DEVICE) is not served by coherdma's provider, "* ]]
    [[ $output == *'coherdma_use_provider()'*'coherdma enable' ]]
    [[ $(explain "$1") == "software: RDMA netlink: driver $1: coherent" ]]
}
@test "rxe: over the stock provider the query says how to select coherdma" { expect_refused rxe; }
@test "siw: over the stock provider the query says how to select coherdma" { expect_refused siw; }
