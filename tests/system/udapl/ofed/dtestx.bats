#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# dtestx: the InfiniBand extensions: RDMA Writes with immediate data, atomics, UD; on siw it reports that there are
# none. What runs with what: ofed.bash.

bats_require_minimum_version 1.8.0
source "$BATS_TEST_DIRNAME/dapltest_result.bash"

setup() { prepare "$BATS_TEST_TMPDIR"; }
teardown() { end_server; }

# run_dtestx OPTION...: each side receives the other's immediate data, and prints values before and after its atomics.
# It sleeps for six seconds in between.
run_dtestx() {
    [[ $DRIVER == rxe ]] || { expect_no_extensions "$@" && return; }
    run_server_and_client is_listening_dtest "dtestx -P $IA -s $*" "dtestx -P $IA -h $ADDRESS $*"
    expect_no_trouble server client
    expect_both 'Connected! 1 endpoints' 'RDMA_WRITE_WITH_IMMEDIATE_DATA test - PASSED' \
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

# expect_no_extensions OPTION...: without extensions dtestx ends at once with a message.
expect_no_extensions() {
    local status=0 side
    for side in server client; do
        run_side $side dtestx -P "$IA" -s "$@" || status=$?
        [[ $status == 1 ]] || check_status $side $status
        expect_times $side 1 'ERROR: IB extension not supported$'
        [[ $(grep -ciE '\berr|fail|warning|invalid' "$out/$side.out") == 1 ]] || complain "$side: more errors than that"
    done
}

# query_attributes: as many attributes as dtestx announces. OFED's provider warns that the IA is opened for a query only.
query_attributes() {
    local count extensions='DAT_(EXTENSION_INTERFACE|IB_FETCH_AND_ADD|IB_CMP_AND_SWAP|IB_IMMED_DATA)=TRUE'
    run_alone dtestx -P "$IA" -q
    drop_lines client 'WARNING! open_hca:.* in QUERY MODE$'
    expect_no_trouble client
    count=$(sed -nE 's/.*Open_Query: .* num_attrs = ([0-9]+)$/\1/p' "$out/client.out")
    expect_times client "${count:-some}" 'Provider Specific Attribute\[[0-9]+\] [A-Z_]+='
    expect client "Local Address AF_INET - $CLIENT_ADDRESS port" 'DAT_IB_RDMA_READ=TRUE' \
        'DAT_IB_TRANSPORT_MTU=[1-9]' "DAT_IB_DEVICE_NAME=$DEVICE"
    expect_times client "$([[ $DRIVER == rxe ]] && echo 4 || echo 0)" "$extensions"
}

# run_dtestx_datagrams OPTION...: OFED's provider over rdma_cm has none.
run_dtestx_datagrams() {
    run_server_and_client is_listening_dtest "dtestx -P $IA -s $*" "dtestx -P $IA -c -h $ADDRESS $*"
    expect_no_trouble server client
    expect_both 'UD test .*PASSED'
}
skip_without_datagrams() {
    run_side client dtestx -P "$IA" -q || true # its output counts
    grep -q 'DAT_IB_UD=TRUE' "$out/client.out" ||
        skip "$PROVIDER: the provider has no datagrams"
}

# As OFED's packages, the provider has no counters.
check_counters() {
    [[ $DRIVER == rxe ]] || skip "iWARP: no extensions, so dtestx ends early"
    run_dtestx -p
    expect client 'Provider not built with counters'
}

# bats test_tags=brief
@test "dtestx -q, the attributes" { run_with_known_faults query_attributes; }
# bats test_tags=brief, coherent
@test "dtestx, immediate data and atomics" { run_with_known_faults run_dtestx; }
# bats test_tags=coherent
@test "dtestx -b 8192 -v" { run_with_known_faults run_dtestx -b 8192 -v; }
# bats test_tags=coherent
@test "dtestx -p, counters" { run_with_known_faults check_counters; }
@test "dtestx -u, datagrams" { skip_without_datagrams && run_with_known_faults run_dtestx_datagrams -u; }
@test "dtestx -U 2 -m, datagrams between several" { skip_without_datagrams && run_with_known_faults run_dtestx_datagrams -U 2 -m; }
