#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# rdma-core's own test-suite: whatever passes with the stock provider passes with ours. The tables
# are in the log, each test's result in $LOG_DIR/pyverbs-DRIVER-KERNEL.json.
# Run by ci/stages: softrdma run --driver both --write "$LOG_DIR" -- bats tests/system/pyverbs.bats

bats_require_minimum_version 1.5.0

# suite DRIVER PLUGIN [MODE]
suite() {
    local file
    file=$LOG_DIR/pyverbs-$1${3:+-$3}-$(uname -r).json
    run "$BATS_TEST_DIRNAME/pyverbs/compare.py" "$1" --json "$file" --plugin "$2" ${3:+--mode "$3"}
    printf '%s\n' "${lines[@]/#/# }" >&3
    ((status != 77)) || skip "$output"
    output=${lines[-1]} # which is shown again if this failed
    return "$status"
}

@test "rxe: what passes of rdma-core's suite with the stock provider passes with ours" {
    suite rxe "$BUILD/release/provider/libcoherdma"
}
@test "siw: what passes of rdma-core's suite with the stock provider passes with ours" {
    suite siw "$BUILD/release/provider/libcoherdma"
}
@test "rxe: what passes of rdma-core's suite passes when the device is emulated, and coherent" {
    suite rxe "$BUILD/release/provider/libcoherdma" through
}
@test "siw: what passes of rdma-core's suite passes when the device is emulated, and coherent" {
    suite siw "$BUILD/release/provider/libcoherdma" through
}
