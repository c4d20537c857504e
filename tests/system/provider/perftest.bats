#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The perftest family on one device, connected by rdma_cm; where the driver is one of OUR_DRIVERS
# (lib.bash), with our plugin. Left out: programs that may hang with the stock provider, too (KNOWN_FAULTS.md):
# several QPs with an SRQ; on rxe, ib_send_lat -e.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"

@test "rxe: ib_write_bw completes, 8 QPs" { with_provider rxe run_perftest ib_write_bw '-n 100 -s 4096 -q 8'; }
@test "siw: ib_write_bw completes, 8 QPs" { with_provider siw run_perftest ib_write_bw '-n 100 -s 4096 -q 8'; }
@test "rxe: ib_write_bw completes, bidirectional" { with_provider rxe run_perftest ib_write_bw '-n 100 -b'; }
@test "siw: ib_write_bw completes, bidirectional" { with_provider siw run_perftest ib_write_bw '-n 100 -b'; }
@test "rxe: ib_write_bw completes, inline" { with_provider rxe run_perftest ib_write_bw '-n 200 -s 64 -I 64'; }
@test "siw: ib_write_bw completes, inline" { with_provider siw run_perftest ib_write_bw '-n 200 -s 64 -I 64'; }
@test "rxe: ib_write_lat completes" { with_provider rxe run_perftest ib_write_lat '-n 200'; }
@test "siw: ib_write_lat completes" { with_provider siw run_perftest ib_write_lat '-n 200'; }
@test "rxe: ib_write_lat completes, inline" { with_provider rxe run_perftest ib_write_lat '-n 200 -s 64 -I 64'; }
@test "siw: ib_write_lat completes, inline" { with_provider siw run_perftest ib_write_lat '-n 200 -s 64 -I 64'; }
@test "rxe: ib_read_bw completes, 8 QPs" { with_provider rxe run_perftest ib_read_bw '-n 100 -s 4096 -q 8'; }
@test "siw: ib_read_bw completes, 8 QPs" { with_provider siw run_perftest ib_read_bw '-n 100 -s 4096 -q 8'; }
@test "rxe: ib_read_bw completes, 8 MiB at a time" { with_provider rxe run_perftest ib_read_bw '-n 5 -s 8388608'; }
@test "siw: ib_read_bw completes, 8 MiB at a time" { with_provider siw run_perftest ib_read_bw '-n 5 -s 8388608'; }
@test "rxe: ib_read_bw completes, waiting for events" { with_provider rxe run_perftest ib_read_bw '-n 200 -s 4096 -e'; }
@test "siw: ib_read_bw completes, waiting for events" { with_provider siw run_perftest ib_read_bw '-n 200 -s 4096 -e'; }
@test "rxe: ib_read_lat completes" { with_provider rxe run_perftest ib_read_lat '-n 200'; }
@test "siw: ib_read_lat completes" { with_provider siw run_perftest ib_read_lat '-n 200'; }
@test "rxe: ib_read_lat completes, waiting for events" { with_provider rxe run_perftest ib_read_lat '-n 200 -e'; }
@test "siw: ib_read_lat completes, waiting for events" { with_provider siw run_perftest ib_read_lat '-n 200 -e'; }
@test "rxe: ib_send_bw completes, 8 QPs" { with_provider rxe run_perftest ib_send_bw '-n 100 -s 4096 -q 8'; }
@test "siw: ib_send_bw completes, 8 QPs" { with_provider siw run_perftest ib_send_bw '-n 100 -s 4096 -q 8'; }
@test "rxe: ib_send_bw completes, inline" { with_provider rxe run_perftest ib_send_bw '-n 200 -s 64 -I 64'; }
@test "siw: ib_send_bw completes, inline" { with_provider siw run_perftest ib_send_bw '-n 200 -s 64 -I 64'; }
@test "rxe: ib_send_bw completes, waiting for events" { with_provider rxe run_perftest ib_send_bw '-n 200 -s 4096 -e'; }
# A shorter limit: it may hang, see retry_perftest.
@test "siw: ib_send_bw completes, waiting for events" { LIMIT=30 PERFTEST_MAY_HANG=yes with_provider siw run_perftest ib_send_bw '-n 200 -s 4096 -e'; }
@test "rxe: ib_send_bw completes, SRQ" { with_provider rxe run_perftest ib_send_bw '-n 200 -s 4096 --use-srq'; }
@test "siw: ib_send_bw completes, SRQ" { with_provider siw run_perftest ib_send_bw '-n 200 -s 4096 --use-srq'; }
@test "rxe: ib_send_lat completes, inline" { with_provider rxe run_perftest ib_send_lat '-n 200 -s 64 -I 64'; }
@test "siw: ib_send_lat completes, inline" { with_provider siw run_perftest ib_send_lat '-n 200 -s 64 -I 64'; }
@test "rxe: ib_send_lat completes, SRQ" { with_provider rxe run_perftest ib_send_lat '-n 200 --use-srq'; }
@test "siw: ib_send_lat completes, SRQ" { with_provider siw run_perftest ib_send_lat '-n 200 --use-srq'; }
@test "rxe: ib_send_bw completes, UD" { with_provider rxe run_perftest ib_send_bw '-n 200 -s 1024 -c UD'; }
@test "rxe: ib_send_lat completes, UD" { with_provider rxe run_perftest ib_send_lat '-n 200 -c UD'; }
@test "rxe: ib_atomic_bw completes, 4 QPs" { with_provider rxe run_perftest ib_atomic_bw '-n 100 -q 4'; }
@test "rxe: ib_atomic_bw completes, fetch and add" { with_provider rxe run_perftest ib_atomic_bw '-n 200 -A FETCH_AND_ADD'; }
@test "rxe: ib_atomic_lat completes, fetch and add" { with_provider rxe run_perftest ib_atomic_lat '-n 200 -A FETCH_AND_ADD'; }
