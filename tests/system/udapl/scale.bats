#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Many endpoints, connections and LMRs, over our libdat2, provider and driver: no leak of memory, descriptors or
# threads, and a sync takes as many instructions as with one LMR. WHOLE=1: a thousand pairs of endpoints, ten
# thousand connections, a hundred thousand LMRs.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"

setup() {
    release=$BUILD
    scale=$release/tests/system/udapl/scale/scale
    export DAT_OVERRIDE=/dev/null RDMAV_DRIVERS=$release/provider/libcoherdma
    export LD_LIBRARY_PATH=$release/udapl:$release/ibverbs-glue
}
teardown() {
    [[ ! ${holder:-} ]] || kill "$holder" 2>/dev/null || true # it may have ended
}

# expect_no_leak DRIVER WHAT FEW ALL: of so many, or all with WHOLE=1. What the process had before and after is on the
# log.
expect_no_leak() {
    local count=$3
    [[ ${WHOLE:-} != 1 ]] || count=$4
    VERBS_LOG_LEVEL=3 VERBS_LOG_FILE=$BATS_TEST_TMPDIR/verbs \
        "$scale" "$(device_fact "$1" DEVICE)" "$2" "$count" >"$BATS_TEST_TMPDIR/usage"
    sed "s/^/# $1, $count /" "$BATS_TEST_TMPDIR/usage" >&3
    grep -q 'is served by coherdma' "$BATS_TEST_TMPDIR/verbs"
}

# count_instructions DRIVER FUNCTION COUNT: $result is those of two thousand calls with so many LMRs.
count_instructions() {
    valgrind -q --tool=callgrind --toggle-collect="$2" \
        --callgrind-out-file="$BATS_TEST_TMPDIR/calls" "$scale" "$(device_fact "$1" DEVICE)" regions "$3" 2>&1
    result=$(sed -n 's/^totals: //p' "$BATS_TEST_TMPDIR/calls")
    ((result > 2000 * 20)) # the function was called
}
# expect_same_instructions DRIVER FUNCTION: with many LMRs less than twice as many as with one.
expect_same_instructions() {
    local with_one result count=2000
    [[ ${WHOLE:-} != 1 ]] || count=100000
    count_instructions "$1" "$2" 1
    with_one=$result
    count_instructions "$1" "$2" "$count"
    echo "# $1, $2: $((with_one / 2000)) instructions with one LMR, $((result / 2000)) with $count" >&3
    ((result < 2 * with_one))
}

# connect_beside_tcp: a TCP listener has every tenth of the ports that connections get.
connect_beside_tcp() {
    sysctl -qw net.ipv4.ip_local_port_range='40000 40999'
    python3 -c '
import socket, time
held = []
for port in range(40000, 41000, 10):
    try:
        held.append(socket.create_server(("", port)))
    except OSError:
        pass # in use
print(len(held), flush=True)
time.sleep(3600)' >"$BATS_TEST_TMPDIR/held" 3>&- &
    holder=$!
    wait_until grep -q . "$BATS_TEST_TMPDIR/held"
    (($(<"$BATS_TEST_TMPDIR/held") >= 80))
    "$scale" "$(device_fact siw DEVICE)" cycles 70
}

@test "rxe: many endpoints at once do not leak" { expect_no_leak rxe endpoints 100 1000; }
@test "siw: many endpoints at once do not leak" { expect_no_leak siw endpoints 100 1000; }
@test "rxe: many connections in turn do not leak" { expect_no_leak rxe cycles 200 10000; }
@test "siw: many connections in turn do not leak" { expect_no_leak siw cycles 200 10000; }
@test "rxe: many LMRs do not leak" { expect_no_leak rxe regions 10000 100000; }
@test "siw: many LMRs do not leak" { expect_no_leak siw regions 10000 100000; }
@test "rxe: an IA opened and closed many times does not leak" { expect_no_leak rxe opens 50 1000; }
@test "siw: an IA opened and closed many times does not leak" { expect_no_leak siw opens 50 1000; }
@test "rxe: dat_lmr_sync_rdma_read takes as many instructions with many LMRs" { expect_same_instructions rxe dat_lmr_sync_rdma_read; }
@test "siw: dat_lmr_sync_rdma_write takes as many instructions with many LMRs" { expect_same_instructions siw dat_lmr_sync_rdma_write; }
@test "siw: connections avoid ports that TCP has in use" { connect_beside_tcp; }
