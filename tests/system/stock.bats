#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The stock stack on one rxe and one siw device: what every later part is compared with.
# Run by ci/stages: softrdma run --driver both -- bats tests/system/stock.bats

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/lib.bash"

devices_listed() {
    run -0 ibv_devices
    [[ $output == *"$(of "$1" DEVICE)"* ]]
}
port_active() {
    run -0 ibv_devinfo -d "$(of "$1" DEVICE)"
    [[ $output == *"PORT_ACTIVE"* ]]
}

@test "rxe: ibv_devices lists it" { devices_listed rxe; }
@test "siw: ibv_devices lists it" { devices_listed siw; }
@test "rxe: ibv_devinfo says the port is active" { port_active rxe; }
@test "siw: ibv_devinfo says the port is active" { port_active siw; }
@test "rxe: rping -C 100 -V" { pinged rxe; }
@test "siw: rping -C 100 -V" { pinged siw; }
@test "rxe: ib_write_bw" { measured rxe ib_write_bw '-n 500 -s 4096'; }
@test "siw: ib_write_bw" { measured siw ib_write_bw '-n 500 -s 4096'; }
@test "rxe: ib_send_lat" { measured rxe ib_send_lat '-n 200'; }
@test "siw: ib_send_lat" { measured siw ib_send_lat '-n 200'; }
# Waiting for events is tried where this perftest can: with one channel for both queues it mixes up
# their events if a reply comes before the acknowledgement, as on rxe it may, and then hangs.
@test "siw: ib_send_lat that waits for events" { measured siw ib_send_lat '-e -n 200'; }
@test "rxe: ibv_rc_pingpong, both sides polling" { ponged ''; }
@test "rxe: ibv_rc_pingpong, both sides waiting for events" { ponged -e; }
@test "rxe: every byte of Send, Write and Read arrives" { ADDRESS=$(of rxe ADDRESS) carried release env env; }
@test "siw: every byte of Send, Write and Read arrives" { ADDRESS=$(of siw ADDRESS) carried release env env; }
