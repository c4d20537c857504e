#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# A program of librpma on a device that is emulated as non-coherent: librpma makes the syncs.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    export TMPDIR=$BATS_TEST_TMPDIR COHERDMA_PROVIDER=$BUILD/provider/libcoherdma-rdmav34.so
    unset IBV_DRIVERS COHERDMA_SOFTRDMA
    export RDMAV_DRIVERS=$BUILD/provider/libcoherdma # the stock one of siw refuses receives without memory
}

# expect_no_findings DRIVER: the emulation leaves all syncs of local memory to librpma.
expect_no_findings() {
    run -0 --separate-stderr "$BUILD/tools/coherdma" emulate --here --mode all --local-buffers program -- \
        "$BUILD/examples/logbook" "$(device_fact "$1" ADDRESS)" 'first record' second
    [[ $(grep -c '^first record$' <<<"$output") == 5 && $(grep -c '^second$' <<<"$output") == 5 ]]
    for mode in stale poison evict:1 evict:2 evict:3; do grep -qE "^$mode +0 +2 +0 +0 +0 +0$" <<<"$output"; done
}
@test "rxe: no sync is missing, in any mode" { expect_no_findings rxe; }
@test "siw: no sync is missing, in any mode" { expect_no_findings siw; }
