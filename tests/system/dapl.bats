#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The stock dapltest against the stock OFED DAPL on rxe: how uDAPL programs behave today.
# Run by ci/stages: softrdma run --driver rxe -- bats tests/system/dapl.bats

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/lib.bash"

setup() {
    export DAT_OVERRIDE=$BATS_TEST_TMPDIR/dat.conf
    echo "stock u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 \"$SOFTRDMA_NETDEV 0\" \"\"" >"$DAT_OVERRIDE"
    dapltest -T S -D stock >"$BATS_TEST_TMPDIR/server.out" 2>&1 3>&- &
    server=$!
    awaited 20 said server 'Service Point Ready' >/dev/null
}

teardown() {
    timeout 20 dapltest -T Q -s "$SOFTRDMA_ADDRESS" -D stock >/dev/null || true
    kill "$server" 2>/dev/null || true
    wait "$server" || true
}

# dapltest's exit status says little (it is 0 for some failures), so its words are read.
client() { # KIND OPTIONS...: options of the test come last, or dapltest takes ours for its
    local kind=$1
    shift
    timeout 90 dapltest -T "$kind" -s "$SOFTRDMA_ADDRESS" -D stock "$@" >"$BATS_TEST_TMPDIR/client.out" 2>&1 3>&-
    run grep -iE 'error|fail|warning' "$BATS_TEST_TMPDIR/client.out"
    ((status == 1)) || {
        tail -n 30 "$BATS_TEST_TMPDIR"/*.out
        return 1
    }
}

@test "dapltest: a transaction of Sends, data checked" {
    client T -i 100 -t 1 -w 1 -V client SR 4096 2 server SR 4096 2
    said client 'Total Recv +: +[0-9.]*[1-9][0-9]* MB'
    said client 'End of Work'
}

@test "dapltest: a transaction of RDMA Write and RDMA Read" {
    client T -i 50 -t 1 -w 1 client RW 4096 1 server RR 4096 1 client SR 1024 server SR 1024
    said client 'Total RDMA Read +: +0\.[0-9]*[1-9]'
    said client 'End of Work'
}

# rxe hands a message to its receiver before it acknowledges it, and no longer does once the
# receiver has disconnected (drivers/infiniband/sw/rxe/rxe_resp.c, do_complete). The server of this
# test disconnects on the last message at once, so one run in sixty says that message was lost.
last_message_unacknowledged() {
    [[ $(grep -ciE 'error|fail|warning' "$BATS_TEST_TMPDIR/client.out") == 1 ]] &&
        grep -q 'Test Error: Client_Sync_Send-reaping DTO problem' "$BATS_TEST_TMPDIR/client.out"
}

@test "dapltest: a performance run with RDMA Write" {
    for _ in 1 2 3; do
        client P -i 256 -m p -p 8 RW 4096 2 && break
        last_message_unacknowledged
    done
    said client 'Number of Operations : 256'
    said client 'Bandwidth +: +[0-9.]*[1-9][0-9]* MB/sec'
}
