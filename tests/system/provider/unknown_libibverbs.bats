#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# A libibverbs that contradicts the plugin's table of its release: the stock provider serves the device, and
# the log has the reason. The library is a copy of this machine's with the name of one function changed that
# no program here calls.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"

setup() {
    local library
    library=$(ldd "$(command -v rping)" | awk '$1 == "libibverbs.so.1" { print $3 }')
    mkdir "$BATS_TEST_TMPDIR/patched"
    LC_ALL=C sed -b 's/ibv_query_qp_data_in_order/ibv_query_qp_data_in_ordeR/g' "$library" \
        >"$BATS_TEST_TMPDIR/patched/libibverbs.so.1"
    ! cmp -s "$library" "$BATS_TEST_TMPDIR/patched/libibverbs.so.1" || skip "$library has no such name"
    use_our_provider
}

expect_stock_provider() { # DRIVER: served by rdma-core's provider, and the log has the reason
    local reason='but ibv_query_qp_data_in_order differs; leaving devices to other providers'
    export LD_LIBRARY_PATH=$BATS_TEST_TMPDIR/patched
    run -0 ibv_devinfo -d "$(device_fact "$1" DEVICE)"
    [[ $output == *PORT_ACTIVE* ]]
    run_rping "$1"
    grep "^libibverbs: \|coherdma" "$VERBS_LOG_FILE"
    [[ $(grep -c "coherdma: .*$reason" "$VERBS_LOG_FILE") == 3 ]]
    run ! grep 'is served by coherdma' "$VERBS_LOG_FILE"
}

@test "rxe: an unknown libibverbs leaves the device to the stock provider" { expect_stock_provider rxe; }
@test "siw: an unknown libibverbs leaves the device to the stock provider" { expect_stock_provider siw; }
