#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# An arm64 guest, seen from outside: it has no bats, only what its root holds.

bats_require_minimum_version 1.5.0

guest() { "$BATS_TEST_DIRNAME/../../scripts/softrdma" run -q --arch arm64 "$@"; }

@test "arm64: rping over rxe, in sight of the caller's files" {
    cd "$BATS_TEST_DIRNAME"
    run -0 guest -- sh -c 'uname -m; ls arm64.bats; rping -s -a $HOST1 -C 20 -V &
        for try in 1 2 3 4 5 6 7 8 9; do sleep 1; rdma resource show cm_id | grep -q LISTEN && break; done
        rping -c -a $HOST1 -C 20 -V -v'
    [[ ${lines[0]} == aarch64 ]]
    [[ ${lines[1]} == arm64.bats ]]
    [[ $(grep -c '^ping data' <<<"$output") == 20 ]]
}

@test "arm64: the command's status passes through" {
    run -33 guest -- sh -c 'exit 33'
}
