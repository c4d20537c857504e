#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# dtestcm: a thousand connections in bursts, and their end. What runs with what: ofed.bash.

bats_require_minimum_version 1.8.0
source "$BATS_TEST_DIRNAME/dapltest_result.bash"

setup() { prepare "$BATS_TEST_TMPDIR"; }
teardown() { end_server; }

# run_dtestcm COUNT BURST [OPTION...]: so many connections with private data; the disconnect event of each names its
# EP.
run_dtestcm() {
    local count=$1 options="-c $1 -b $2 ${*:3}"
    run_server_and_client is_listening_dtest "dtestcm -P $IA -s $options" "dtestcm -P $IA -h $ADDRESS $options"
    expect_no_trouble server client
    expect_both 'DAPL Connection Test Complete\.'
    expect server "Running server on $IA with $count RC connections" "ALL $count CONNECTED on Server!"
    expect client "Running client on $IA with $count RC connections" "ALL $count CONNECTED on Client!" \
        "Connections: .* CPS +[0-9.]*[1-9][0-9.]* Total .*, Num=$count$"
}
# Without -m there is one listener, with it one for each connection of a burst.
expect_listeners() { # COUNT BODY...
    local count=$1
    shift
    "$@"
    expect_times server "$count" '^ Server ready on port'
}

# bats test_tags=brief
@test "dtestcm -c 100 -b 10: connections in bursts" { run_with_known_faults expect_listeners 1 run_dtestcm 100 10; }
@test "dtestcm -c 100 -b 10 -w: waiting" { run_with_known_faults run_dtestcm 100 10 -w; }
@test "dtestcm -c 100 -b 20 -m: a listener for each connection of a burst" { run_with_known_faults expect_listeners 20 run_dtestcm 100 20 -m; }
@test "dtestcm -c 1000 -b 100: connections in bursts" { run_with_known_faults run_dtestcm 1000 100; }
@test "dtestcm -c 1000 -b 100 -w: waiting" { run_with_known_faults run_dtestcm 1000 100 -w; }
@test "dtestcm -c 1000 -b 100 -m: a listener for each connection of a burst" { run_with_known_faults run_dtestcm 1000 100 -m; }
