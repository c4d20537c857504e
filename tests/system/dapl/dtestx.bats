#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# dtestx: the InfiniBand extensions: Writes with immediate data, atomics, datagrams; on siw there are
# none, and it has to be told so. What runs with what: dapl.bash.
# Run by ci/stages: softrdma run --driver rxe|siw -- bats tests/system/dapl/dtestx.bats

bats_require_minimum_version 1.8.0
source "$BATS_TEST_DIRNAME/judge.bash"

setup() { prepare "$BATS_TEST_TMPDIR"; }
teardown() { dismiss; }

# extended OPTION...: each side sees the other's immediate data, what its atomics found, and what
# they left. It rests for six seconds in between.
extended() {
    [[ $DRIVER == rxe ]] || { refused "$@" && return; }
    converse waits_for_tcp "dtestx -P $IA -s $*" "dtestx -P $IA -h $ADDRESS $*"
    no_trouble server client
    both 'Connected! 1 endpoints' 'RDMA_WRITE_WITH_IMMEDIATE_DATA test - PASSED' \
        'CMP_SWAP test - PASSED' 'FETCH_ADD test - PASSED' 'IB extension test - immed/atomic test PASSED'
    expect server 'Server received immed_data=0x7777' 'contains: Client written data' \
        'Server got original data +=? ?54321, expected' 'final result \(on Server\) += 98765, expected' \
        'original data \(on Server\) += 100, expected' 'Server got original data += 200, expected' \
        'final result \(on Server\) += 30, expected'
    expect client 'Client received immed_data=0x1111' 'contains: Server data' \
        'Client got original data +=? ?12345, expected' 'final result \(on Client\) += 0x54321, expected' \
        'original data \(on Client\) += 10, expected' 'Server side original data += 20, expected' \
        'final result \(on Client\) += 300, expected'
}

# refused OPTION...: without extensions it ends at once, and says why.
refused() {
    local status=0 side
    for side in server client; do
        as $side dtestx -P "$IA" -s "$@" || status=$?
        [[ $status == 1 ]] || outcome $side $status
        times $side 1 'ERROR: IB extension not supported$'
        [[ $(grep -ciE '\berr|fail|warning|invalid' "$out/$side.out") == 1 ]] || complain "$side: more trouble than that"
    done
}

# queried: the attributes, without opening the IA; as many as it says there are. That the IA is
# opened to be asked only is a warning of stock's.
queried() {
    local count extensions='DAT_(EXTENSION_INTERFACE|IB_FETCH_AND_ADD|IB_CMP_AND_SWAP|IB_IMMED_DATA)=TRUE'
    alone dtestx -P "$IA" -q
    excused client 'WARNING! open_hca:.* in QUERY MODE$'
    no_trouble client
    count=$(sed -nE 's/.*Open_Query: .* num_attrs = ([0-9]+)$/\1/p' "$out/client.out")
    times client "${count:-some}" 'Provider Specific Attribute\[[0-9]+\] [A-Z_]+='
    expect client "Local Address AF_INET - $CLIENT_ADDRESS port" 'DAT_IB_RDMA_READ=TRUE' \
        'DAT_IB_TRANSPORT_MTU=[1-9]' "DAT_IB_DEVICE_NAME=$DEVICE"
    times client "$([[ $DRIVER == rxe ]] && echo 4 || echo 0)" "$extensions"
}

# datagrams OPTION...: where the provider has them, which stock's over rdma_cm has not.
datagrams() {
    converse waits_for_tcp "dtestx -P $IA -s $*" "dtestx -P $IA -c -h $ADDRESS $*"
    no_trouble server client
    both 'UD test .*PASSED'
}
has_datagrams() {
    as client dtestx -P "$IA" -q || true
    grep -q 'DAT_IB_UD=TRUE' "$out/client.out" ||
        skip "$PROVIDER: the provider has no datagrams"
}

# counted: what the client has done, as the provider counts it; where it was not asked to, dtestx does
# not ask it either.
counted() {
    local name
    [[ $PROVIDER == ours ]] || skip "stock: built without counters"
    [[ $DRIVER == rxe ]] || skip "iWARP: no extensions, and dtestx ends before"
    extended -p
    expect client 'Provider not built with counters'
    COHERDMA_COUNTERS=1 extended -p
    for name in EP_CONNECT EP_DISCONNECT EP_POST_SEND EP_POST_WRITE_IMM EP_POST_CMP_SWAP EP_RECV \
        EP_RECV_RDMA_IMM IA_PZ_CREATE IA_CM_ACTIVE_EST; do
        expect client " DCNT_$name = 1$"
    done
    expect client ' DCNT_EP_POST_FETCH_ADD = 2$' ' DCNT_EP_POST_WRITE_IMM_DATA = 256$' \
        ' DCNT_EP_RECV_DATA = 16$' ' DCNT_IA_EVD_CREATE = 3$'
    expect server ' DCNT_IA_SP_CR_ACCEPTED = 1$' ' DCNT_IA_CM_PASSIVE_EST = 1$' ' DCNT_EP_RECV_RDMA_IMM = 1$'
}

# bats test_tags=brief
@test "dtestx -q, the attributes" { held queried; }
# bats test_tags=brief
@test "dtestx, immediate data and atomics" { held extended; }
@test "dtestx -b 8192 -v" { held extended -b 8192 -v; }
@test "dtestx -p, counters" { held counted; }
@test "dtestx -u, datagrams" { has_datagrams && held datagrams -u; }
@test "dtestx -U 2 -m, datagrams between several" { has_datagrams && held datagrams -U 2 -m; }
