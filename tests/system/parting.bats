#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The end of a connection of coherdma's uDAPL between two hosts, one of which cannot be heard meanwhile.
# Run by ci/stages: softrdma run --driver rxe --hosts 2 -- bats tests/system/parting.bats

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/lib.bash"

setup() {
    export COHERDMA_DAT_LIVE=0
    for host in 1 2; do
        on $host "$BUILD/release/tools/datinfo/datinfo" --conf |
            sed "s,libdaplcoherdma,$BUILD/release/udapl/&," >"$BATS_TEST_TMPDIR/$host.conf"
    done
    touch "$BATS_TEST_TMPDIR"/{server,client}.out
    server='' client=''
}
teardown() {
    tail "$BATS_TEST_TMPDIR"/*.out
    for each in $server $client; do kill "$each" 2>/dev/null || true; done
}

# parting HOST SERVER|CLIENT [ADDRESS]
parting() {
    local ia
    ia=$(on "$1" printenv SOFTRDMA_DEVICE)
    on "$1" env "DAT_OVERRIDE=$BATS_TEST_TMPDIR/$1.conf" "$BUILD/release/tests/parting" "$2" "$ia" "${@:3}" \
        >"$BATS_TEST_TMPDIR/$2.out" 2>&1 3>&-
}
wire() { on 1 tc qdisc "$1" dev "$(on 1 printenv SOFTRDMA_NETDEV)" root netem loss 100%; }

# The kernel says it again some seconds later, if the connection's id is there still.
@test "that a client has hung up is told to its server, though it is lost on the wire at first" {
    parting 2 server &
    server=$!
    awaited 20 said server listens >/dev/null
    exec 4> >(parting 1 client "$HOST2")
    client=$!
    awaited 20 said client connected >/dev/null
    wire add
    echo now >&4
    awaited 20 said client 'told that it is over' >/dev/null
    wire del
    wait "$client"
    said client closed
    wait "$server"
    said server 'told that it is over'
}
