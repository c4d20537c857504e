#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# rdma-core's test suite: a test that passes with the stock provider passes with ours. The tables are in the
# log, each test's result in $LOG_DIR/pyverbs-DRIVER-KERNEL.json.

bats_require_minimum_version 1.5.0

# compare DRIVER PLUGIN [MODE]
compare() {
    local file
    file=$LOG_DIR/pyverbs-$1${3:+-$3}-$(uname -r).json
    run "$BATS_TEST_DIRNAME/pyverbs/compare.py" "$1" --json "$file" --plugin "$2" ${3:+--mode "$3"}
    printf '%s\n' "${lines[@]/#/# }" >&3
    ((status != 77)) || skip "$output"
    output=${lines[-1]} # which is shown again if this failed
    return "$status"
}

@test "rxe: rdma-core's tests that pass with the stock provider pass with coherdma" {
    compare rxe "$BUILD/provider/libcoherdma"
}
@test "siw: rdma-core's tests that pass with the stock provider pass with coherdma" {
    compare siw "$BUILD/provider/libcoherdma"
}
@test "rxe: rdma-core's tests that pass with our provider pass on an emulated coherent device" {
    compare rxe "$BUILD/provider/libcoherdma" passthrough
}
@test "siw: rdma-core's tests that pass with our provider pass on an emulated coherent device" {
    compare siw "$BUILD/provider/libcoherdma" passthrough
}
