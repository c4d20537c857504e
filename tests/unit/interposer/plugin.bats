#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The plugin that attaches the interposer, as a file, without a device: alone in a folder it can attach nothing, so
# that it says if it tries to.

bats_require_minimum_version 1.5.0

setup() {
    unset COHERDMA_EMULATE COHERDMA_OBSERVERS
    export COHERDMA_CONFIG=$BATS_TEST_TMPDIR/coherdma.conf
    cp "$BUILD/provider/libcoherdma-observers-rdmav34.so" "$BATS_TEST_TMPDIR/plugin.so"
}
loads() { "$BUILD/tests/unit/abi/loads" "$BATS_TEST_TMPDIR/plugin.so"; }

expect_nothing() {
    run -0 loads
    [[ -z $output ]]
}
expect_attempt() {
    run -1 loads
    [[ $output == "coherdma: cannot observe this program, as "*"/libcoherdma-interposer.so: cannot open shared object file"* ]]
}

@test "observers: needs libc only" {
    [[ $(readelf -dW "$BATS_TEST_TMPDIR/plugin.so" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p') == libc.so.6 ]]
}
@test "observers: linked under the name of each libibverbs ABI" {
    for private in 57 59 64 65; do
        [[ $BUILD/provider/libcoherdma-observers-rdmav$private.so -ef $BUILD/provider/libcoherdma-observers-rdmav34.so ]]
    done
}
@test "observers: attaches nothing unless it is asked for" {
    expect_nothing
    COHERDMA_EMULATE='' COHERDMA_OBSERVERS='' expect_nothing
    COHERDMA_EMULATE=off expect_nothing
    printf '[rxe0]\ncoherent = no\n' >"$COHERDMA_CONFIG"
    expect_nothing
    printf '[rxe0]\nemulate = stale\n' >>"$COHERDMA_CONFIG"
    COHERDMA_EMULATE=off expect_nothing
}
@test "observers: what is asked for and is not there ends the program" {
    COHERDMA_EMULATE=stale expect_attempt
    COHERDMA_OBSERVERS=/nonexistent expect_attempt
    printf '[rxe0]\nemulate = stale\n' >"$COHERDMA_CONFIG"
    expect_attempt
}
