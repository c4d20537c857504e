#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Two hosts joined by a wire, of the driver that is there.
# Run by ci/stages: softrdma run --driver rxe|siw --hosts 2 -- bats tests/system/hosts.bats

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/lib.bash"

sent() { # bytes that host 1's end of the wire sent
    on 1 cat "/sys/class/net/$(on 1 printenv SOFTRDMA_NETDEV)/statistics/tx_bytes"
}

@test "rping from host 1 to host 2, over the wire" {
    before=$(sent)
    PORT=7174 pair "on 2 rping -s -a $HOST2 -C 50 -V -S 1000" "on 1 rping -c -a $HOST2 -C 50 -V -v -S 1000"
    [[ $(grep -ac '^ping data' "$BATS_TEST_TMPDIR/client.out") == 50 ]]
    (($(sent) - before > 50000))
}

@test "rping from host 2 to host 1" {
    PORT=7174 pair "on 1 rping -s -a $HOST1 -C 50 -V" "on 2 rping -c -a $HOST1 -C 50 -V -v"
    [[ $(grep -c '^ping data' "$BATS_TEST_TMPDIR/client.out") == 50 ]]
}

@test "every byte of Send, Write and Read arrives on the other host" {
    ADDRESS=$HOST2 carried release 'on 2' 'on 1'
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
}

@test "on: a host that is not there is misuse" {
    run -2 on 3 true
    [[ $output == *"no host '3'"* ]]
}
