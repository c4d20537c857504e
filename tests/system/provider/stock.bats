#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The stock providers on one rxe and one siw device: the baseline that all other tests are compared with.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"

expect_device_listed() {
    run -0 ibv_devices
    [[ $output == *"$(device_fact "$1" DEVICE)"* ]]
}
expect_port_active() {
    run -0 ibv_devinfo -d "$(device_fact "$1" DEVICE)"
    [[ $output == *"PORT_ACTIVE"* ]]
}

@test "rxe: ibv_devices lists it" { expect_device_listed rxe; }
@test "siw: ibv_devices lists it" { expect_device_listed siw; }
@test "rxe: ibv_devinfo reports an active port" { expect_port_active rxe; }
@test "siw: ibv_devinfo reports an active port" { expect_port_active siw; }
@test "rxe: rping verifies 100 rounds" { run_rping rxe; }
@test "siw: rping verifies 100 rounds" { run_rping siw; }
@test "rxe: ib_write_bw prints a bandwidth" { run_perftest rxe ib_write_bw '-n 500 -s 4096'; }
@test "siw: ib_write_bw prints a bandwidth" { run_perftest siw ib_write_bw '-n 500 -s 4096'; }
@test "rxe: ib_send_lat prints a latency" { run_perftest rxe ib_send_lat '-n 200'; }
@test "siw: ib_send_lat prints a latency" { run_perftest siw ib_send_lat '-n 200'; }
# Not on rxe: this perftest has one channel for both CQs. If a reply arrives before the acknowledgement, as
# it may on rxe, it takes one CQ's event for the other's, and hangs.
@test "siw: ib_send_lat prints a latency, waiting for events" { run_perftest siw ib_send_lat '-e -n 200'; }
@test "rxe: ibv_rc_pingpong verifies 1000 rounds, polling" { run_pingpong ''; }
@test "rxe: ibv_rc_pingpong verifies 1000 rounds, waiting for events" { run_pingpong -e; }
@test "rxe: data_integrity verifies every byte of Send, Write and Read" { verify_data_on rxe; }
@test "siw: data_integrity verifies every byte of Send, Write and Read" { verify_data_on siw; }
