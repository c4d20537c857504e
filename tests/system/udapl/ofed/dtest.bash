# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# shellcheck shell=bash
#
# Runs dtest, and checks the output of its parts.
source "${BASH_SOURCE[0]%/*}/dapltest_result.bash"

# run_dtest PARTS OPTION...: PARTS are the functions below that check a part of dtest's output. -b is always given:
# dtest multiplies the buffer's size by a thousand and more.
run_dtest() {
    local parts=$1 part side
    shift
    suppress_peer_access dtest.supp
    run_server_and_client is_listening_dtest "dtest -P $IA -s $*" "dtest -P $IA -h $ADDRESS $*"
    # Its CNO belongs to two EVDs, and may wake for the other one.
    for side in server client; do drop_lines $side '^ WARNING: CNO notification: without EVD\?$'; done
    expect_no_trouble server client
    expect_both 'CONNECTED!' 'DAPL Test Complete. PASSED'
    expect server "Query EP: LOCAL addr $ADDRESS port b0c0" "Query EP: REMOTE addr $CLIENT_ADDRESS port"
    expect client "Query EP: LOCAL addr $CLIENT_ADDRESS port" "Query EP: REMOTE addr $ADDRESS port b0c0"
    for part in $parts; do $part; done
}

# expect_peer_data SIDE PATTERN: memory that its peer wrote or read; dtest calls no sync of it.
expect_peer_data() { [[ ${COHERDMA_EMULATE:-} ]] || expect "$@"; }

positive='[0-9.]*[1-9][0-9.]*'
check_writes() { # an RDMA Write of each side arrives at the other
    expect_both 'RDMA WRITE DATA with SEND MSG'
    expect_peer_data server 'SERVER: RDMA write buffer contains: client RDMA write data'
    expect_peer_data client 'CLIENT: RDMA write buffer contains: server RDMA write data'
}
check_client_writes() {
    expect_both 'RDMA WRITE DATA with SEND MSG'
    expect_peer_data server 'SERVER: RDMA write buffer contains: client RDMA write data'
    expect_peer_data client 'CLIENT: RDMA write buffer contains: blah'
}
# -w: RDMA Writes with immediate data, if the provider has that extension.
check_writes_or_immediate() {
    [[ $DRIVER == rxe ]] || { check_writes && return; }
    local completed='rdma writes completed == 1000 last byte=-25'
    expect_both 'RDMA WRITE IMM DATA with SEND MSG'
    expect_peer_data server 'SERVER: RDMA write buffer contains: client RDMA write data' "$completed"
    expect_peer_data client 'CLIENT: RDMA write buffer contains: server RDMA write data' "$completed"
}
check_client_writes_or_immediate() {
    [[ $DRIVER == rxe ]] || { check_client_writes && return; }
    expect_both 'RDMA WRITE IMM DATA with SEND MSG'
    expect_peer_data server 'contains: client RDMA write data...rdma writes completed == 1000 last byte=-25'
}
# Each side fills its buffer when it begins this part, and reads at once: the peer of a slow side still finds what it
# wrote itself before.
check_reads() {
    expect_both 'RDMA READ DATA with SEND MSG'
    expect_peer_data server 'SERVER: RCV RDMA read buffer contains: (client RDMA read|server RDMA write) data'
    expect_peer_data client 'CLIENT: RCV RDMA read buffer contains: (server RDMA read|client RDMA write) data'
}
# With -u the client fills the buffer that the server reads without waiting for the server: on a busy
# machine the Read comes first, and finds what the buffer had at the start.
check_client_reads() {
    expect_both 'RDMA READ DATA with SEND MSG'
    expect_peer_data server 'SERVER: RCV RDMA read buffer contains: (client RDMA read data|blah, blah, blah)'
    expect_peer_data client 'CLIENT: RCV RDMA read buffer contains: (server RDMA read|client RDMA write) data'
}
check_pingpong() {
    expect_both 'PING DATA with SEND MSG' "Message PingPong: \(100 x ${size:-4096}\) Total $positive us"
}
check_stream() {
    expect_both "RDMA write \(bi-direction\): Total=$positive usec.* 2000 x ${size:-4096}, $positive MB/sec"
}
check_client_stream() {
    expect client "RDMA write \(uni-direction\): Total=$positive usec.* 1000 x 4096, $positive MB/sec"
}
check_write_pingpong() {
    expect_both 'RDMA WRITE PINGPONG' "RDMA write PingPong: \(1000 x (4096|1024)\) Total $positive us"
}
check_data_check() { expect_both 'Running DATA CHECK mode' 'RDMA WRITE PINGPONG with DATA CHECK'; }
check_all_sizes() {
    local around
    for around in 1024 2048 3072 4096; do
        expect_both "\(1000 x $((around - 1))\) Total $positive us" "\(1000 x $around\) Total $positive us"
    done
    expect_times server 11 'RDMA write PingPong'
    expect_times client 11 'RDMA write PingPong'
}
check_verbose() {
    expect_both 'DAT_IB_RDMA_READ = TRUE' 'Freed EP' 'Freed cr EVD' 'Unregistered Recv Buffer' 'Freed pz' 'Closed Interface Adaptor'
    expect_times server 100 'SERVER: RCV buffer\[[0-9]+\] .* contains: 0x55 len=4096'
    expect_times client 100 'CLIENT: RCV buffer\[[0-9]+\] .* contains: 0xaa len=4096'
}
# shellcheck disable=SC2034 # for files that source this
all='check_writes check_reads check_pingpong check_stream'
