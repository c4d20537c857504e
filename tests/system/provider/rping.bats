#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# rping, as server and client on one device; where the driver is one of OUR_DRIVERS (lib.bash), with our
# plugin. iWARP has no QPs that a program connects itself.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"

# run_persistent_rping DRIVER: three clients, one after the other: see rping_until_served for siw. An rping
# that fails after its work passes or fails by its output: see is_rping_exit_race.
run_persistent_rping() {
    local client='rping -c -a @ -V -v -C 30'
    run_with_daemon "$1" 7174 'rping -s -P -a @ -V' "$client; $client; $client; true"
    expect_pings 90
    [[ $(grep -c 'DISCONNECT EVENT' "$BATS_TEST_TMPDIR/server.out") == 3 ]]
}

@test "rxe: rping verifies 200 rounds of 8 KiB" { with_provider rxe run_rping 200 '-S 8192' '-S 8192'; }
@test "siw: rping verifies 200 rounds of 8 KiB" { with_provider siw run_rping 200 '-S 8192' '-S 8192'; }
@test "rxe: rping's persistent server serves three clients" { with_provider rxe run_persistent_rping; }
@test "siw: rping's persistent server serves three clients" { with_provider siw run_persistent_rping; }
@test "rxe: rping verifies 50 rounds on QPs that it connects itself" { with_provider rxe run_rping 50 -q -q; }
