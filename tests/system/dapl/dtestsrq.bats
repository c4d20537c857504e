#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# dtestsrq: messages from several endpoints to one SRQ, and back. What runs with what: dapl.bash.
# Run by ci/stages: softrdma run --driver rxe|siw -- bats tests/system/dapl/dtestsrq.bats

bats_require_minimum_version 1.8.0
source "$BATS_TEST_DIRNAME/judge.bash"

setup() { prepare "$BATS_TEST_TMPDIR"; }
teardown() { dismiss; }

# shared COUNT OPTION...: so many connections. After each end it waits, for as long as it takes, for
# the asynchronous event that nothing is outstanding on that EP any more, and for no other EP.
shared() {
    local count=$1 kind=SRQ
    [[ " $* " != *' -S 0 '* ]] || kind='none SRQ'
    LIMIT=20 converse 'waits_for_cm 45248' "dtestsrq -P $IA -s -c $*" "dtestsrq -P $IA -h $ADDRESS -c $*"
    no_trouble server client
    expect server "Running RC $kind test as SERVER: on $IA with $count connections" "ALL $count CONNECTED on server!"
    expect client "Running RC $kind test as CLIENT: on $IA with $count connections" "ALL $count CONNECTED on client!"
    both "DAPL RC $kind Test Complete\."
}

@test "dtestsrq -c 1" { held shared 1 -b 2048; }
# bats test_tags=brief
@test "dtestsrq -c 4" { held shared 4 -b 2048; }
@test "dtestsrq -c 4 -B 4 -t 10, bursts" { held shared 4 -b 2048 -B 4 -t 10; }
@test "dtestsrq -c 20, the MTU's size" { held shared 20; }
# bats test_tags=brief
@test "dtestsrq -c 4 -S 0, without the SRQ" { held shared 4 -b 2048 -S 0; }
