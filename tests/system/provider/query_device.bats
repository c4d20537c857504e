#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# coherdmadv_query_device() with soft devices: over our provider, emulated, and over the stock provider; and
# how coherdma explain shows it. Needs a softrdma guest with both drivers.

# shellcheck disable=SC2154 # bats' run sets stderr
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
    [[ $output == "$1 non-coherent mode 'stale' line 128: coherdma emulates a non-coherent device" ]]
    # An administrator's setting does not apply to the emulated device.
    [[ $(COHERDMA_COHERENT=yes explain "$1") == "emulation: coherdma's emulation: mode stale: non-coherent" ]]
    COHERDMA_EMULATE=off run -0 --separate-stderr query "$1"
    [[ $output == "$1 coherent "* ]]
}
@test "rxe: our provider reports an emulated device and its mode" { expect_emulated rxe; }
@test "siw: our provider reports an emulated device and its mode" { expect_emulated siw; }

# The file of the system, or another one, turns the emulation on for the devices that it names.
expect_configured() { # DRIVER OTHER_DRIVER
    export RDMAV_DRIVERS=$BUILD/provider/libcoherdma-observers COHERDMA_CONFIG=$BATS_TEST_TMPDIR/coherdma.conf
    printf '[driver:%s]\nemulate = poison\n' "$1" >"$COHERDMA_CONFIG"
    [[ $(explain "$1") == "emulation: coherdma's emulation: mode poison: non-coherent" ]]
    [[ $(explain "$2") == "software: RDMA netlink: driver $2: coherent" ]]
    COHERDMA_EMULATE=off run -0 explain "$1"
    [[ $output == "software: RDMA netlink: driver $1: coherent" ]]
    # A device whose settings are invalid is not opened.
    echo 'emulate = maybe' >>"$COHERDMA_CONFIG"
    run -1 --separate-stderr query "$1"
    [[ $output == 'cannot open the device: Invalid argument' ]]
    [[ $stderr == "coherdma: $(device_fact "$1" DEVICE): cannot emulate a non-coherent device: $COHERDMA_CONFIG:3: "* ]]
}
@test "rxe: coherdma.conf turns the emulation on" { expect_configured rxe siw; }
@test "siw: coherdma.conf turns the emulation on" { expect_configured siw rxe; }

# The emulation does not need our provider.
expect_emulated_over_stock() { # DRIVER
    export RDMAV_DRIVERS=$BUILD/provider/libcoherdma-observers
    export COHERDMA_EMULATE=stale COHERDMA_EMULATE_LOG=$BATS_TEST_TMPDIR/log.%p
    run -0 --separate-stderr query "$1"
    [[ $output == "? non-coherent mode 'stale' line 64: coherdma emulates a non-coherent device" ]]
    [[ $(explain "$1") == "emulation: coherdma's emulation: mode stale: non-coherent" ]]
}
@test "rxe: over the stock provider an emulated device is reported" { expect_emulated_over_stock rxe; }
@test "siw: over the stock provider an emulated device is reported" { expect_emulated_over_stock siw; }

expect_refused() { # DRIVER
    run -0 --separate-stderr query "$1"
    [[ $output == "refused: Operation not supported: $(device_fact "$1" DEVICE) is not served by coherdma's provider, "* ]]
    [[ $output == *'coherdma_use_provider()'*'coherdma enable' ]]
    [[ $(explain "$1") == "software: RDMA netlink: driver $1: coherent" ]]
}
@test "rxe: over the stock provider the query says how to select coherdma" { expect_refused rxe; }
@test "siw: over the stock provider the query says how to select coherdma" { expect_refused siw; }
