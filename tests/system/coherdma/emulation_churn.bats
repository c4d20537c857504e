#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Sixteen threads create, use and destroy all objects, whose addresses are used again at once, and sync all that they
# must: no crash, no wrong data or wr_id, no finding. For 3 s in each mode; with WHOLE=1, 60 s.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"

# expect_no_fault DRIVER PROVIDER MODE
expect_no_fault() {
    local gid_index=-1 seconds=3
    [[ $1 == rxe ]] && gid_index=$(device_fact rxe GID_INDEX) # QPs of siw are connected by rdma_cm only
    [[ -n ${WHOLE-} ]] && seconds=60
    export RDMAV_DRIVERS=$BUILD/provider/libcoherdma-observers COHERDMA_EMULATE=$3
    [[ $2 == coherdma ]] && RDMAV_DRIVERS=$BUILD/provider/libcoherdma:$RDMAV_DRIVERS
    run -0 "$BUILD/tests/system/coherdma/emulation/churn" "$(device_fact "$1" ADDRESS)" "$(device_fact "$1" DEVICE)" \
        "$gid_index" "$seconds"
    echo "$output"
    [[ $output == *'emulation: no findings'* && $output == *', 0 failures'* ]]
}

@test "rxe, stock: addresses that are used again, in mode stale" { expect_no_fault rxe stock stale; }
@test "rxe, stock: addresses that are used again, in mode poison" { expect_no_fault rxe stock poison; }
@test "rxe, stock: addresses that are used again, in mode evict" { expect_no_fault rxe stock evict; }
@test "rxe, coherdma: addresses that are used again, in mode stale" { expect_no_fault rxe coherdma stale; }
@test "rxe, coherdma: addresses that are used again, in mode poison" { expect_no_fault rxe coherdma poison; }
@test "rxe, coherdma: addresses that are used again, in mode evict" { expect_no_fault rxe coherdma evict; }
@test "siw, stock: addresses that are used again, in mode stale" { expect_no_fault siw stock stale; }
@test "siw, stock: addresses that are used again, in mode poison" { expect_no_fault siw stock poison; }
@test "siw, stock: addresses that are used again, in mode evict" { expect_no_fault siw stock evict; }
@test "siw, coherdma: addresses that are used again, in mode stale" { expect_no_fault siw coherdma stale; }
@test "siw, coherdma: addresses that are used again, in mode poison" { expect_no_fault siw coherdma poison; }
@test "siw, coherdma: addresses that are used again, in mode evict" { expect_no_fault siw coherdma evict; }
