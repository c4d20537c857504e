#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# dtest and dapltest between two hosts. What runs with what: ofed.bash.

bats_require_minimum_version 1.8.0
source "$BATS_TEST_DIRNAME/dtest.bash"
source "$BATS_TEST_DIRNAME/dapltest.bash"

SERVER_ON='on 2' CLIENT_ON='on 1'
setup() {
    [[ $BATS_TEST_DESCRIPTION != *'from host 2'* ]] || SERVER_ON='on 1' CLIENT_ON='on 2'
    prepare "$BATS_TEST_TMPDIR"
}
teardown() { end_server; }

# expect_sent BYTES BODY...: the client's host sent more than these.
expect_sent() {
    local before bytes=$1
    shift
    before=$(tx_bytes)
    "$@"
    (($(tx_bytes) - before > bytes)) || complain 'client: the data did not go over the wire'
}
tx_bytes() { $CLIENT_ON cat "/sys/class/net/$($CLIENT_ON printenv SOFTRDMA_NETDEV)/statistics/tx_bytes"; }

# bats test_tags=brief
@test "dtest: Sends, Writes and Reads, from host 1 to host 2" { run_with_known_faults expect_sent 4000000 run_dtest "$all" -b 4096; }
@test "dtest: Sends, Writes and Reads, from host 2 to host 1" { run_with_known_faults expect_sent 4000000 run_dtest "$all" -b 4096; }
@test "dtest -c, with a CNO, from host 1 to host 2" { run_with_known_faults expect_sent 4000000 run_dtest "$all" -b 4096 -c; }
# dtest takes a message for complete when its last byte has arrived: here it fits into one packet.
@test "dtest -W -D, verified, from host 1 to host 2" { run_with_known_faults expect_sent 1000000 run_dtest 'check_write_pingpong check_data_check' -b 1024 -W -D; }
# bats test_tags=brief
@test "dapltest -T T -V: all kinds, verified, from host 1 to host 2" {
    run_with_known_faults expect_sent 1000000 run_transaction '-i 100 -V' client RW 4096 2 server RR 8192 1 \
        client SR 1024 3 server SR 1024 3 server RW 256 1 client RR 256 1
}
@test "dapltest -T T -V: all kinds, verified, from host 2 to host 1" {
    run_with_known_faults expect_sent 1000000 run_transaction '-i 100 -V' client RW 4096 2 server RR 8192 1 \
        client SR 1024 3 server SR 1024 3 server RW 256 1 client RR 256 1
}
@test "dapltest -T T -t 4 -w 4: Sends by four threads, from host 1 to host 2" {
    run_with_known_faults expect_sent 1000000 run_transaction '-i 50 -t 4 -w 4' client SR 4096 2 server SR 4096 2
}
@test "dapltest -T P -m p: Writes, from host 1 to host 2" { run_with_known_faults expect_sent 8000000 run_performance p 1024 16 RW 4096 2; }
@test "dapltest -T P -m b: Reads, from host 1 to host 2" { run_with_known_faults expect_sent 50000 run_performance b 1024 16 RR 4096 1; }
