# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# shellcheck shell=bash
#
# How dtest runs, and what each part of it says.
source "${BASH_SOURCE[0]%/*}/judge.bash"

# ran PARTS OPTION...: PARTS are the functions below that know what a part of dtest says. The buffer
# is multiplied by a thousand and more, so it is always said how large it is.
ran() {
    local parts=$1 part side
    shift
    converse waits_for_tcp "dtest -P $IA -s $*" "dtest -P $IA -h $ADDRESS $*"
    # Its CNO is that of two EVDs, and at times wakes for the other.
    for side in server client; do excused $side '^ WARNING: CNO notification: without EVD\?$'; done
    no_trouble server client
    both 'CONNECTED!' 'DAPL Test Complete. PASSED'
    expect server "Query EP: LOCAL addr $ADDRESS port b0c0" "Query EP: REMOTE addr $CLIENT_ADDRESS port"
    expect client "Query EP: LOCAL addr $CLIENT_ADDRESS port" "Query EP: REMOTE addr $ADDRESS port b0c0"
    for part in $parts; do $part; done
}

positive='[0-9.]*[1-9][0-9.]*'
written() { # a Write of either side, seen by the other
    both 'RDMA WRITE DATA with SEND MSG'
    expect server 'SERVER: RDMA write buffer contains: client RDMA write data'
    expect client 'CLIENT: RDMA write buffer contains: server RDMA write data'
}
written_by_client() {
    both 'RDMA WRITE DATA with SEND MSG'
    expect server 'SERVER: RDMA write buffer contains: client RDMA write data'
    expect client 'CLIENT: RDMA write buffer contains: blah'
}
# -w makes its Writes with immediate data, where there is such an extension.
written_or_immediate() {
    [[ $DRIVER == rxe ]] || { written && return; }
    both 'RDMA WRITE IMM DATA with SEND MSG' 'rdma writes completed == 1000 last byte=-25'
    expect server 'SERVER: RDMA write buffer contains: client RDMA write data'
    expect client 'CLIENT: RDMA write buffer contains: server RDMA write data'
}
written_or_immediate_by_client() {
    [[ $DRIVER == rxe ]] || { written_by_client && return; }
    both 'RDMA WRITE IMM DATA with SEND MSG'
    expect server 'contains: client RDMA write data...rdma writes completed == 1000 last byte=-25'
}
# Each side puts the data in when it begins this part, and reads at once: a slow one's peer still
# finds what it wrote itself before. There is no telling whether it read at all if it never wrote.
read_back() {
    both 'RDMA READ DATA with SEND MSG'
    expect server 'SERVER: RCV RDMA read buffer contains: (client RDMA read|server RDMA write) data'
    expect client 'CLIENT: RCV RDMA read buffer contains: (server RDMA read|client RDMA write) data'
}
read_back_by_client() {
    both 'RDMA READ DATA with SEND MSG'
    expect server 'SERVER: RCV RDMA read buffer contains: client RDMA read data'
    expect client 'CLIENT: RCV RDMA read buffer contains: (server RDMA read|client RDMA write) data'
}
messaged() {
    both 'PING DATA with SEND MSG' "Message PingPong: \(100 x ${size:-4096}\) Total $positive us"
}
streamed() {
    both "RDMA write \(bi-direction\): Total=$positive usec.* 2000 x ${size:-4096}, $positive MB/sec"
}
streamed_by_client() {
    expect client "RDMA write \(uni-direction\): Total=$positive usec.* 1000 x 4096, $positive MB/sec"
}
bounced() {
    both 'RDMA WRITE PINGPONG' "RDMA write PingPong: \(1000 x (4096|1024)\) Total $positive us"
}
verified() { both 'Running DATA CHECK mode' 'RDMA WRITE PINGPONG with DATA CHECK'; }
bounced_in_all_sizes() {
    local around
    for around in 1024 2048 3072 4096; do
        both "\(1000 x $((around - 1))\) Total $positive us" "\(1000 x $around\) Total $positive us"
    done
    times server 11 'RDMA write PingPong'
    times client 11 'RDMA write PingPong'
}
told_all() {
    both 'DAT_IB_RDMA_READ = TRUE' 'Freed EP' 'Freed cr EVD' 'Unregistered Recv Buffer' 'Freed pz' 'Closed Interface Adaptor'
    times server 100 'SERVER: RCV buffer\[[0-9]+\] .* contains: 0x55 len=4096'
    times client 100 'CLIENT: RCV buffer\[[0-9]+\] .* contains: 0xaa len=4096'
}
# shellcheck disable=SC2034 # for those who source this
all='written read_back messaged streamed'
