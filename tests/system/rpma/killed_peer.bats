#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Clients of librpma are killed at any moment. ROUNDS: how many, for each seed.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"

kill_clients() { # SEED
    run -0 "$BUILD/tests/system/rpma/killed_peer" "$SOFTRDMA_ADDRESS" "${ROUNDS:-100}" "$1"
    echo "# $output" >&3
}
@test "each connection of a killed client ends by an event, and nothing is left, seed 1" { kill_clients 1; }
@test "each connection of a killed client ends by an event, and nothing is left, seed 2" { kill_clients 2; }
