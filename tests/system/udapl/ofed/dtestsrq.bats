#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# dtestsrq: messages from several endpoints to one SRQ, and back. What runs with what: ofed.bash.

bats_require_minimum_version 1.8.0
source "$BATS_TEST_DIRNAME/dapltest_result.bash"

setup() { prepare "$BATS_TEST_TMPDIR"; }
teardown() { end_server; }

# shared COUNT OPTION...: so many connections. After each disconnection dtestsrq waits for the
# asynchronous event that no receive is outstanding on that EP, and accepts it for no other EP.
run_dtestsrq() {
    local count=$1 kind=SRQ
    [[ " $* " != *' -S 0 '* ]] || kind='none SRQ'
    run_server_and_client 'is_listening 45248' "dtestsrq -P $IA -s -c $*" "dtestsrq -P $IA -h $ADDRESS -c $*"
    expect_no_trouble server client
    expect server "Running RC $kind test as SERVER: on $IA with $count connections" "ALL $count CONNECTED on server!"
    expect client "Running RC $kind test as CLIENT: on $IA with $count connections" "ALL $count CONNECTED on client!"
    expect_both "DAPL RC $kind Test Complete\."
}

@test "dtestsrq -c 1: one endpoint with an SRQ" { run_with_known_faults run_dtestsrq 1 -b 2048; }
# bats test_tags=brief
@test "dtestsrq -c 4: four endpoints with an SRQ" { run_with_known_faults run_dtestsrq 4 -b 2048; }
@test "dtestsrq -c 4 -B 4 -t 10: bursts" { run_with_known_faults run_dtestsrq 4 -b 2048 -B 4 -t 10; }
@test "dtestsrq -c 20: messages of the MTU's size" { run_with_known_faults run_dtestsrq 20; }
# bats test_tags=brief
@test "dtestsrq -c 4 -S 0: without an SRQ" { run_with_known_faults run_dtestsrq 4 -b 2048 -S 0; }
