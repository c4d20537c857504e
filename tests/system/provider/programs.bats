#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The programs of rdmacm-utils but rping, each as server and client on one device; where the driver is one of
# OUR_DRIVERS (lib.bash), with our plugin. iWARP has no UD QPs, and no QPs that a program connects itself.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"

expect_output_of_both() { # PATTERN
    expect_output server "$1" && expect_output client "$1"
}
expect_transfers_complete() {
    expect_output_of_both '^data transfers complete' && expect_output_of_both '^return status 0'
}

run_cm_messages() { # DRIVER PORT PROGRAM OPTIONS
    run_programs "$1" "$2" "$3 -b @ $4" "$3 -s @ $4" && expect_transfers_complete
}
run_ucmatose_on_siw() { # DRIVER OPTIONS
    retry_siw_early_data run_cm_messages "$1" 7471 ucmatose "$2"
}
run_rdma_example() { # DRIVER PREFIX: its programs are PREFIXserver and PREFIXclient
    run_programs "$1" 7471 "$2server" "$2client -s @"
    expect_output_of_both 'end 0$'
}
run_mckey() { # DRIVER
    local options
    options="-m 239.1.2.3 -b $(device_fact "$1" ADDRESS) -C 2 -S 256"
    cd "$BATS_TEST_TMPDIR" || return
    READY='has_printed server joined' run_server_client "stdbuf -oL mckey $options" "$(mckey_until_received "$options")"
    expect_transfers_complete
}
run_rstream() { # DRIVER PROGRAM ITERATIONS: with verification
    local options="-T v -S 65536 -C 50 -I $3"
    READY='is_listening 7471 --rsocket' run_programs "$1" 7471 "$2 -b @ $options" "$2 -s @ $options"
    expect_output_of_both "^custom +64k +50 +$3 "
}
run_rcopy() { # DRIVER
    READY='is_listening 7427 --rsocket' run_with_daemon "$1" 7427 rcopy "rcopy /bin/bash @:$BATS_TEST_TMPDIR/copy"
    cmp /bin/bash "$BATS_TEST_TMPDIR/copy"
}
run_cmtime() { # DRIVER: each step of twenty connections took some time
    run_with_daemon "$1" 7471 'cmtime -b @ -c 20' 'cmtime -s @ -c 20'
    for step in 'create id' 'resolve addr' 'resolve route' 'create qp' connect disconnect destroy; do
        expect_output client "^$step *: +[0-9]+\.[0-9]+ "
    done
}
compare_devinfo() { # DRIVER: with what the stock provider reports
    local device
    device=$(device_fact "$1" DEVICE)
    for option in '' -v; do
        diff -u --label stock <(env -u RDMAV_DRIVERS ibv_devinfo $option -d "$device") --label coherdma <(ibv_devinfo $option -d "$device")
    done
}

@test "siw: ibv_devinfo reports what it reports with the stock provider" { with_provider siw compare_devinfo; }
@test "siw: data_integrity verifies every byte of Send, Write and Read" { with_provider siw verify_data_on; }
@test "rxe: udaddy transfers UD messages both ways" { with_provider rxe run_cm_messages 7174 udaddy '-c 3 -C 20 -S 512'; }
@test "rxe: ucmatose transfers messages over three connections" { with_provider rxe run_cm_messages 7471 ucmatose '-c 3 -C 20 -S 4096'; }
@test "siw: ucmatose transfers messages over three connections" { with_provider siw run_ucmatose_on_siw '-c 3 -C 20 -S 4096'; }
@test "rxe: mckey receives multicast datagrams" { with_provider rxe run_mckey; }
@test "rxe: rdma_server and rdma_client end well" { with_provider rxe run_rdma_example rdma_; }
@test "siw: rdma_server and rdma_client end well" { with_provider siw run_rdma_example rdma_; }
@test "rxe: rdma_xserver and rdma_xclient end well" { with_provider rxe run_rdma_example rdma_x; }
@test "siw: rdma_xserver and rdma_xclient end well" { with_provider siw run_rdma_example rdma_x; }
@test "rxe: rstream verifies a stream over rsockets" { with_provider rxe run_rstream rstream 1; }
@test "siw: rstream verifies a stream over rsockets" { with_provider siw run_rstream rstream 1; }
@test "rxe: riostream verifies a stream by riowrite" { with_provider rxe run_rstream riostream 3; }
@test "siw: riostream verifies a stream by riowrite" { with_provider siw run_rstream riostream 3; }
@test "rxe: rcopy copies a file over rsockets" { with_provider rxe run_rcopy; }
@test "siw: rcopy copies a file over rsockets" { with_provider siw run_rcopy; }
@test "rxe: cmtime completes all steps of twenty connections" { with_provider rxe run_cmtime; }
@test "siw: cmtime completes all steps of twenty connections" { with_provider siw run_cmtime; }
