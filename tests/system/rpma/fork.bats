#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# A program of librpma forks while it has a connection, or a request for one, and goes on.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"

setup() {
    # rdma_cm chooses ports without regard to those that TCP, and so siw, keeps for a minute (KNOWN_FAULTS.md).
    sysctl -qw net.ipv4.tcp_max_tw_buckets=0
}
# With and without ibv_fork_init(), before and after the connection is established.
fork_child() { # CHILD
    for options in '' --init --request '--init --request'; do
        # shellcheck disable=SC2086 # several options
        "$BUILD/tests/system/rpma/fork" "$SOFTRDMA_ADDRESS" "$1" $options
    done
}
@test "the parent goes on while a child waits" { fork_child idle; }
@test "the parent goes on after a child whose destructors run" { fork_child exit; }
@test "the parent goes on while a child is another program" { fork_child exec; }
@test "a child connects to the parent with a peer of its own" { fork_child peer; }
@test "a child changes its copy of the memory" {
    for options in '' --request; do
        # shellcheck disable=SC2086 # none is no argument
        "$BUILD/tests/system/rpma/fork" "$SOFTRDMA_ADDRESS" write $options
    done
}
