#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Two hosts joined by a wire, of the driver that is there. With WITH=ours, our plugin serves it.
# Run by ci/stages: softrdma run --driver rxe|siw --hosts 2 -- bats tests/system/hosts.bats

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/lib.bash"

setup() {
    SERVER_ON='on 2'
    [[ ${WITH:-} == ours ]] || return 0
    export RDMAV_DRIVERS=$BUILD/release/provider/libcoherdma
    export VERBS_LOG_LEVEL=3 VERBS_LOG_FILE=/tmp/verbs.$BATS_TEST_NUMBER # each host's own, if it has files
}

# If the plugin is ours, programs on both hosts had the device from it.
served() {
    local host
    [[ ${WITH:-} == ours ]] || return 0
    for host in 1 2; do on $host grep "is served by coherdma" "$VERBS_LOG_FILE"; done
}

sent() { # bytes that host 1's end of the wire sent
    on 1 cat "/sys/class/net/$(on 1 printenv SOFTRDMA_NETDEV)/statistics/tx_bytes"
}

moved() { (($(sent) - $1 > $2)); } # BEFORE BYTES: more than these went over the wire since

@test "rping from host 1 to host 2, over the wire" {
    before=$(sent)
    PORT=7174 pair "on 2 rping -s -a $HOST2 -C 50 -V -S 1000" "on 1 rping -c -a $HOST2 -C 50 -V -v -S 1000"
    [[ $(grep -ac '^ping data' "$BATS_TEST_TMPDIR/client.out") == 50 ]]
    moved "$before" 50000
    served
}

@test "rping from host 2 to host 1" {
    SERVER_ON='on 1'
    PORT=7174 pair "on 1 rping -s -a $HOST1 -C 50 -V" "on 2 rping -c -a $HOST1 -C 50 -V -v"
    [[ $(grep -c '^ping data' "$BATS_TEST_TMPDIR/client.out") == 50 ]]
}

@test "every byte of Send, Write and Read arrives on the other host" {
    ADDRESS=$HOST2 carried release 'on 2' 'on 1'
    served
}

@test "ib_write_bw from host 1 to host 2" {
    local program="ib_write_bw -R -n 200 -s 4096"
    [[ $SOFTRDMA_DEVICE != siw* || $(on 1 uname -n) != $(on 2 uname -n) ]] ||
        skip 'its server listens at every address, which siw refuses in a namespace'
    PORT=18515 perftested "on 2 $program" "" "on 1 $program $HOST2"
    served
}

@test "a host whose client is killed in mid-transfer has every request back and serves the next" {
    local program=$BUILD/release/tests/carry pid=$BATS_TEST_TMPDIR/pid before
    [[ ${WITH:-} == ours || $SOFTRDMA_DEVICE != siw* ]] ||
        skip "with the stock provider, what is posted on siw after the peer has gone may never complete"
    on 2 "$program" server "$HOST2" --clients 2 >"$BATS_TEST_TMPDIR/server.out" 2>&1 3>&- &
    server=$!
    before=$(sent)
    # shellcheck disable=SC2016 # the arguments are those of sh
    on 1 sh -c 'echo $$ >"$1"; exec "$2" client "$3" --rounds 100000' sh "$pid" "$program" "$HOST2" 2>&1 3>&- &
    awaited 20 moved "$before" 1000000
    kill -KILL "$(<"$pid")"
    awaited 20 said server 'carry: .*; [1-9][0-9]* requests failed' >/dev/null
    on 1 timeout 60 "$program" client "$HOST2"
    wait "$server"
    said server 'transfers, [0-9]+ bytes verified'
    served
}

@test "with one packet in a hundred lost, every byte still arrives" {
    for host in 1 2; do
        on $host tc qdisc add dev "$(on $host printenv SOFTRDMA_NETDEV)" root netem loss 1%
    done
    ADDRESS=$HOST2 carried release 'on 2' 'on 1' --timeout 60
    lost=0
    for host in 1 2; do
        netdev=$(on $host printenv SOFTRDMA_NETDEV)
        dropped=$(on $host tc -s -j qdisc show dev "$netdev" | jq '.[0].drops')
        lost=$((lost + dropped))
        on $host tc qdisc del dev "$netdev" root
    done
    echo "$lost packets were lost"
    ((lost > 0))
    served
}

@test "on: a host that is not there is misuse" {
    run -2 on 3 true
    [[ $output == *"no host '3'"* ]]
}
