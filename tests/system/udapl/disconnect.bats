#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The end of a connection of coherdma's uDAPL between two hosts: all packets of one are lost, or the wire is slow.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"

setup() {
    export COHERDMA_DAT_LIVE=0
    for host in 1 2; do
        on $host "$BUILD/tools/datinfo/datinfo" --conf |
            sed "s,libdaplcoherdma,$BUILD/udapl/&," >"$BATS_TEST_TMPDIR/$host.conf"
    done
    touch "$BATS_TEST_TMPDIR"/{server,client}.out
    server='' client=''
}
teardown() {
    tail "$BATS_TEST_TMPDIR"/*.out
    # shellcheck disable=SC2016 # for the shell on host 1
    on 1 sh -c 'tc qdisc del dev $SOFTRDMA_NETDEV root' 2>/dev/null || true # the test may not have added it
    for pid in $server $client; do kill "$pid" 2>/dev/null || true; done # it may have ended
}

# run_side HOST SERVER|CLIENT [ADDRESS]
run_side() {
    local ia
    ia=$(on "$1" printenv SOFTRDMA_DEVICE)
    on "$1" env "DAT_OVERRIDE=$BATS_TEST_TMPDIR/$1.conf" "$BUILD/tests/system/udapl/disconnect_peers" "$2" "$ia" "${@:3}" \
        >"$BATS_TEST_TMPDIR/$2.out" 2>&1 3>&-
}
# lose_packets add|del: all that host 1 sends.
lose_packets() {
    # shellcheck disable=SC2016 # for the shell on host 1
    on 1 sh -c 'tc qdisc $0 dev $SOFTRDMA_NETDEV root netem loss 100%' "$1"
}

# On iWARP TCP ends the connection, and has no DREQ.
# The kernel sends the DREQ again after four seconds or more; coherdma's provider keeps the rdma_cm_id for eight.
@test "rxe: a server has its disconnect event although the first DREQ of its client is lost" {
    run_side 2 server &
    server=$!
    wait_for_output server listens
    exec 4> >(run_side 1 client "$HOST2")
    client=$!
    wait_for_output client connected
    lose_packets add
    echo now >&4
    wait_for_output client '^disconnected'
    lose_packets del
    wait "$client"
    expect_output client closed
    wait "$server"
    expect_output server '^disconnected'
}

# write_and_disconnect signaled|unsignaled: 64 MiB; then the client disconnects gracefully.
write_and_disconnect() {
    run_side 2 server &
    server=$!
    wait_for_output server listens
    # shellcheck disable=SC2016 # for the shell on host 1
    on 1 sh -c 'tc qdisc add dev $SOFTRDMA_NETDEV root netem rate 200mbit limit 100000'
    run_side 1 client-write-"$1" "$HOST2"
    expect_output client-write-"$1" '^disconnected'
    wait "$server"
    expect_output server '^whole'
}
@test "any: a graceful disconnect ends a long Write first, over a slow wire" { write_and_disconnect signaled; }
@test "any: and one whose completion is suppressed" { write_and_disconnect unsignaled; }
