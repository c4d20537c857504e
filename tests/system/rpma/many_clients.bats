#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Sixteen clients of librpma at once against one server process. ROUNDS: how often each connects.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"

PROGRAM=$BUILD/tests/system/rpma/many_clients

setup() {
    # rdma_cm chooses ports without regard to those that TCP, and so siw, keeps for a minute (KNOWN_FAULTS.md).
    sysctl -qw net.ipv4.tcp_max_tw_buckets=0
}
serve() { # THREADS
    run -0 "$PROGRAM" "$SOFTRDMA_ADDRESS" "$1" 16 "${ROUNDS:-10}" 1
    echo "# $output" >&3
}
@test "one thread serves sixteen clients" { serve one; }
@test "a thread for each connection serves sixteen clients" { serve each; }
@test "one thread with an SRQ serves sixteen clients" { serve srq; }

# Three: of sixteen, siw reports some as unreachable. It waits five seconds for the server, which the emulation slows down.
@test "no sync is missing, with a thread for each connection" {
    cd "$BATS_TEST_TMPDIR"
    unset RDMAV_DRIVERS IBV_DRIVERS COHERDMA_SOFTRDMA
    export TMPDIR=$BATS_TEST_TMPDIR COHERDMA_PROVIDER=$BUILD/provider/libcoherdma-rdmav34.so
    run -0 "$BUILD/tools/coherdma" emulate --here --mode stale --local-buffers program -- \
        "$PROGRAM" "$SOFTRDMA_ADDRESS" each 3 "${ROUNDS:-4}" 1
    [[ $output == *connections,* ]]
}
