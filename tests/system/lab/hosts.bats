#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Two hosts joined by a wire, with devices of one driver. With WITH=coherdma, coherdma's plugin serves them.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"

setup() {
    SERVER_ON='on 2'
    [[ ${WITH:-} == coherdma ]] || return 0
    export RDMAV_DRIVERS=$BUILD/provider/libcoherdma
    export VERBS_LOG_LEVEL=3 VERBS_LOG_FILE=/tmp/verbs.$BATS_TEST_NUMBER # the hosts may have separate files
}

# expect_served_on_both: with WITH=coherdma, checks that coherdma's plugin served programs on both hosts.
expect_served_on_both() {
    local host
    [[ ${WITH:-} == coherdma ]] || return 0
    for host in 1 2; do on $host grep "is served by coherdma" "$VERBS_LOG_FILE"; done
}

# tx_bytes: prints the number of bytes that host 1 has sent over the wire.
tx_bytes() {
    on 1 cat "/sys/class/net/$(on 1 printenv SOFTRDMA_NETDEV)/statistics/tx_bytes"
}

has_sent() { (($(tx_bytes) - $1 > $2)); } # BEFORE BYTES: host 1 has sent more than BYTES since BEFORE

@test "rping from host 1 to host 2 verifies 50 rounds over the wire" {
    before=$(tx_bytes)
    PORT=7174 run_server_client "on 2 rping -s -a $HOST2 -C 50 -V -S 1000" "on 1 rping -c -a $HOST2 -C 50 -V -v -S 1000"
    expect_pings 50
    has_sent "$before" 50000
    expect_served_on_both
}

@test "rping from host 2 to host 1 verifies 50 rounds" {
    SERVER_ON='on 1'
    PORT=7174 run_server_client "on 1 rping -s -a $HOST1 -C 50 -V" "on 2 rping -c -a $HOST1 -C 50 -V -v"
    expect_pings 50
}

@test "data_integrity verifies every byte of Send, Write and Read on the other host" {
    ADDRESS=$HOST2 verify_data 'on 2' 'on 1'
    expect_served_on_both
}

@test "rxe: packets of many sizes have the checksum that zlib computes" {
    [[ $SOFTRDMA_DEVICE == rxe* ]] || skip 'a packet of siw has no checksum unless the peer demands one'
    local netdev status=0
    netdev=$(on 1 printenv SOFTRDMA_NETDEV)
    ADDRESS=$HOST2 verify_data 'on 2' "on 1 $BATS_TEST_DIRNAME/verify_checksums.py $netdev" >"$BATS_TEST_TMPDIR/out" || status=$?
    cat "$BATS_TEST_TMPDIR/out"
    ((status == 0)) && grep -qE '^[0-9]{3,} packets, 0 with a wrong checksum' "$BATS_TEST_TMPDIR/out"
}

@test "ib_write_bw from host 1 to host 2 completes" {
    local program="ib_write_bw -R -n 200 -s 4096"
    [[ $SOFTRDMA_DEVICE != siw* || $(on 1 uname -n) != $(on 2 uname -n) ]] ||
        skip 'perftest listens at every address, which siw refuses in a network namespace'
    PORT=18515 run_perftest_commands "on 2 $program" "" "on 1 $program $HOST2"
    expect_served_on_both
}

@test "all WRs of a server complete when its client is killed, and it serves the next client" {
    local program=$BUILD/tests/system/lib/data_integrity pid=$BATS_TEST_TMPDIR/pid before
    [[ ${WITH:-} == coherdma || $SOFTRDMA_DEVICE != siw* ]] ||
        skip "with the stock provider, a WR posted on siw after the peer disconnected may never complete"
    on 2 "$program" server "$HOST2" --clients 2 >"$BATS_TEST_TMPDIR/server.out" 2>&1 3>&- &
    server=$!
    before=$(tx_bytes)
    # shellcheck disable=SC2016 # the arguments are those of sh
    on 1 sh -c 'echo $$ >"$1"; exec "$2" client "$3" --rounds 100000' sh "$pid" "$program" "$HOST2" 2>&1 3>&- &
    wait_until has_sent "$before" 1000000
    kill -KILL "$(<"$pid")"
    wait_for_output server 'data_integrity: .*; [1-9][0-9]* requests failed'
    on 1 "$program" client "$HOST2"
    wait "$server"
    expect_output server 'transfers, [0-9]+ bytes verified'
    expect_served_on_both
}

@test "data_integrity verifies every byte when one packet in a hundred is lost" {
    for host in 1 2; do
        on $host tc qdisc add dev "$(on $host printenv SOFTRDMA_NETDEV)" root netem loss 1%
    done
    ADDRESS=$HOST2 verify_data 'on 2' 'on 1'
    lost=0
    for host in 1 2; do
        netdev=$(on $host printenv SOFTRDMA_NETDEV)
        dropped=$(on $host tc -s -j qdisc show dev "$netdev" | jq '.[0].drops')
        lost=$((lost + dropped))
        on $host tc qdisc del dev "$netdev" root
    done
    echo "$lost packets were lost"
    ((lost > 0))
    expect_served_on_both
}

@test "the MTU of devices is 4096 bytes" {
    for host in 1 2; do
        mtu=$(on $host sh -c 'ibv_devinfo -d "$SOFTRDMA_DEVICE"' | awk '/active_mtu/ { print $2 }')
        echo "host $host: $mtu"
        [[ $mtu == 4096 ]]
    done
}

@test "on: an unknown host is an error with status 2" {
    run -2 on 3 true
    [[ $output == *"no host '3'"* ]]
}

# The last one: other cases need the MTU.
@test "the MTU of an interface can be lowered and set back" {
    local netdev mtu
    netdev=$(on 1 printenv SOFTRDMA_NETDEV)
    mtu=$(on 1 cat "/sys/class/net/$netdev/mtu")
    on 1 ip link set dev "$netdev" mtu 1500
    on 1 ip link set dev "$netdev" mtu "$mtu"
}
