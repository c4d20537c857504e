#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# A libibverbs that contradicts what we know of its release: the stock provider serves the device,
# and the log says why. The libraries are copies of this machine's with one name changed, of a
# function that nobody here calls.
# Run by ci/stages: softrdma run --driver both -- bats tests/system/unrecognised.bats

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/lib.bash"

setup() {
    local own
    own=$(ldd "$(command -v rping)" | awk '$1 == "libibverbs.so.1" { print $3 }')
    mkdir "$BATS_TEST_TMPDIR/patched"
    LC_ALL=C sed -b 's/ibv_query_qp_data_in_order/ibv_query_qp_data_in_ordeR/g' "$own" \
        >"$BATS_TEST_TMPDIR/patched/libibverbs.so.1"
    ! cmp -s "$own" "$BATS_TEST_TMPDIR/patched/libibverbs.so.1" || skip "$own has not the name to be changed"
    export RDMAV_DRIVERS=$BUILD/release/provider/libcoherdma
    export VERBS_LOG_LEVEL=3 VERBS_LOG_FILE=$BATS_TEST_TMPDIR/verbs.log
}

# refused DRIVER: by us, and why; and the device is there and works all the same.
refused() {
    local said='but ibv_query_qp_data_in_order speaks against it; devices are left to other drivers'
    export LD_LIBRARY_PATH=$BATS_TEST_TMPDIR/patched
    run -0 ibv_devinfo -d "$(of "$1" DEVICE)"
    [[ $output == *PORT_ACTIVE* ]]
    pinged "$1"
    grep "^libibverbs: \|coherdma" "$VERBS_LOG_FILE"
    [[ $(grep -c "coherdma: .*$said" "$VERBS_LOG_FILE") == 3 ]]
    run ! grep 'is served by coherdma' "$VERBS_LOG_FILE"
}

@test "rxe: with a libibverbs that we do not recognise, the stock provider serves" { refused rxe; }
@test "siw: with a libibverbs that we do not recognise, the stock provider serves" { refused siw; }
