#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Random calls of several threads (sequencer/README.md) over our libdat2, provider and driver: each result is legal,
# and everything can be freed. WHOLE=1: 4 seeds for 30 s each; otherwise one seed for 10 s.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"

setup() {
    export DAT_OVERRIDE=/dev/null RDMAV_DRIVERS=$BUILD/provider/libcoherdma
    export LD_LIBRARY_PATH=$BUILD/udapl:$BUILD/ibverbs-glue
    seeds=(1) seconds=10
    [[ ${WHOLE:-} != 1 ]] || seeds=(1 2 3 4) seconds=30
}

# expect_legal_results DRIVER THREADS: with each seed.
expect_legal_results() {
    local seed
    for seed in "${seeds[@]}"; do
        "$BUILD/tests/system/udapl/sequencer/sequencer" "$(device_fact "$1" DEVICE)" \
            --threads "$2" --seed "$seed" --seconds "$seconds"
    done
}

@test "rxe: random calls of 4 threads give legal results" { expect_legal_results rxe 4; }
@test "rxe: random calls of 16 threads give legal results" { expect_legal_results rxe 16; }
@test "siw: random calls of 4 threads give legal results" { expect_legal_results siw 4; }
@test "siw: random calls of 16 threads give legal results" { expect_legal_results siw 16; }
