#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# dtestcm: a thousand connections in bursts, and their end. What runs with what: dapl.bash.
# Run by ci/stages: softrdma run --driver rxe|siw -- bats tests/system/dapl/dtestcm.bats

bats_require_minimum_version 1.8.0
source "$BATS_TEST_DIRNAME/judge.bash"

setup() { prepare "$BATS_TEST_TMPDIR"; }
teardown() { dismiss; }

# connected COUNT BURST [OPTION...]: so many connections, each with its private data; each tells the
# EP it was of when it ended.
connected() {
    local LIMIT=90 count=$1 options="-c $1 -b $2 ${*:3}"
    converse waits_for_tcp "dtestcm -P $IA -s $options" "dtestcm -P $IA -h $ADDRESS $options"
    no_trouble server client
    both 'DAPL Connection Test Complete\.'
    expect server "Running server on $IA with $count RC connections" "ALL $count CONNECTED on Server!"
    expect client "Running client on $IA with $count RC connections" "ALL $count CONNECTED on Client!" \
        "Connections: .* CPS +[0-9.]*[1-9][0-9.]* Total .*, Num=$count$"
}
# Without -m there is one listener, with it one for each connection of a burst.
listeners() { # COUNT BODY...
    local count=$1
    shift
    "$@"
    times server "$count" '^ Server ready on port'
}

# bats test_tags=brief
@test "dtestcm -c 100 -b 10" { held listeners 1 connected 100 10; }
@test "dtestcm -c 100 -b 10 -w, waiting" { held connected 100 10 -w; }
@test "dtestcm -c 100 -b 20 -m, a listener for each of a burst" { held listeners 20 connected 100 20 -m; }
@test "dtestcm -c 1000 -b 100" { held connected 1000 100; }
@test "dtestcm -c 1000 -b 100 -w, waiting" { held connected 1000 100 -w; }
@test "dtestcm -c 1000 -b 100 -m, a listener for each of a burst" { held connected 1000 100 -m; }
