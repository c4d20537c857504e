#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Many endpoints, connections and LMRs, over our libdat2, provider and driver: no leak of memory,
# descriptors or threads, and a sync costs what it costs with one LMR. WHOLE=1: a thousand pairs, ten
# thousand connections, a hundred thousand LMRs.
# Run by ci/stages: softrdma run --driver both -- bats tests/system/scale.bats

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/lib.bash"

setup() {
    release=$BUILD/release
    scale=$release/tests/system/scale/scale
    export DAT_OVERRIDE=/dev/null RDMAV_DRIVERS=$release/provider/libcoherdma
    export LD_LIBRARY_PATH=$release/udapl:$release/ibverbs-glue
    [[ ${WHOLE:-} == 1 ]] && limit=1500 || limit=240
}
teardown() {
    [[ ! ${holder:-} ]] || kill "$holder" 2>/dev/null || true
}

# many DRIVER WHAT FEW ALL: so many, or all with WHOLE=1. What it had before and after is on the log.
many() {
    local count=$3
    [[ ${WHOLE:-} != 1 ]] || count=$4
    VERBS_LOG_LEVEL=3 VERBS_LOG_FILE=$BATS_TEST_TMPDIR/verbs \
        timeout "$limit" "$scale" "$(of "$1" DEVICE)" "$2" "$count" >"$BATS_TEST_TMPDIR/said"
    sed "s/^/# $1, $count /" "$BATS_TEST_TMPDIR/said" >&3
    grep -q 'is served by coherdma' "$BATS_TEST_TMPDIR/verbs"
}

# instructions DRIVER FUNCTION COUNT: of two thousand calls with so many LMRs. $result
instructions() {
    timeout "$limit" valgrind -q --tool=callgrind --toggle-collect="$2" \
        --callgrind-out-file="$BATS_TEST_TMPDIR/calls" "$scale" "$(of "$1" DEVICE)" regions "$3" 2>&1
    result=$(sed -n 's/^totals: //p' "$BATS_TEST_TMPDIR/calls")
    ((result > 2000 * 20)) # It was called at all.
}
# flat DRIVER FUNCTION: with many LMRs it is less than twice what it is with one.
flat() {
    local one result count=2000
    [[ ${WHOLE:-} != 1 ]] || count=100000
    instructions "$1" "$2" 1
    one=$result
    instructions "$1" "$2" "$count"
    echo "# $1, $2: $((one / 2000)) instructions with one LMR, $((result / 2000)) with $count" >&3
    ((result < 2 * one))
}

# taken: of the ports that connections get, every tenth is a listener's. The others are enough.
taken() {
    sysctl -qw net.ipv4.ip_local_port_range='40000 40999'
    python3 -c '
import socket, time
held = []
for port in range(40000, 41000, 10):
    try:
        held.append(socket.create_server(("", port)))
    except OSError:
        pass # somebody else has it
print(len(held), flush=True)
time.sleep(300)' >"$BATS_TEST_TMPDIR/held" 3>&- &
    holder=$!
    awaited 20 grep -q . "$BATS_TEST_TMPDIR/held"
    (($(<"$BATS_TEST_TMPDIR/held") >= 80))
    timeout "$limit" "$scale" "$(of siw DEVICE)" cycles 70
}

@test "rxe: many endpoints at once" { many rxe endpoints 100 1000; }
@test "siw: many endpoints at once" { many siw endpoints 100 1000; }
@test "rxe: many connections, one after the other" { many rxe cycles 200 10000; }
@test "siw: many connections, one after the other" { many siw cycles 200 10000; }
@test "rxe: many LMRs" { many rxe regions 10000 100000; }
@test "siw: many LMRs" { many siw regions 10000 100000; }
@test "rxe: opened and closed many times" { many rxe opens 50 1000; }
@test "siw: opened and closed many times" { many siw opens 50 1000; }
@test "dat_lmr_sync_rdma_read costs the same with many LMRs" { flat rxe dat_lmr_sync_rdma_read; }
@test "dat_lmr_sync_rdma_write costs the same with many LMRs" { flat siw dat_lmr_sync_rdma_write; }
@test "siw: ports that are somebody else's in TCP are not a connection's end" { taken; }
