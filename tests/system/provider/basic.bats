#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Programs of rdma-core and perftest, and unusual verbs calls, on one rxe and one siw device, with the provider
# $PROVIDER: stock (the default), the baseline that all other tests are compared with, or coherdma.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"

# with_chosen_provider OPENS COMMAND...: the command's programs open the device so often; if the provider is
# ours, it logged that.
with_chosen_provider() {
    [[ ${PROVIDER:-stock} == stock ]] || use_our_provider
    "${@:2}"
    [[ ${PROVIDER:-stock} == stock ]] || expect_served "${BATS_TEST_DESCRIPTION%%:*}" "$1"
}

expect_device_listed() {
    run -0 ibv_devices
    [[ $output == *"$(device_fact "$1" DEVICE)"* ]]
}
expect_port_active() {
    run -0 ibv_devinfo -d "$(device_fact "$1" DEVICE)"
    [[ $output == *"PORT_ACTIVE"* ]]
}

# bats test_tags=gate
@test "rxe: ibv_devices lists it" { with_chosen_provider 0 expect_device_listed rxe; }
# bats test_tags=gate
@test "siw: ibv_devices lists it" { with_chosen_provider 0 expect_device_listed siw; }
# bats test_tags=gate
@test "rxe: ibv_devinfo reports an active port" { with_chosen_provider 1 expect_port_active rxe; }
# bats test_tags=gate
@test "siw: ibv_devinfo reports an active port" { with_chosen_provider 1 expect_port_active siw; }
# bats test_tags=gate
@test "rxe: rping verifies 100 rounds" { with_chosen_provider 2 run_rping rxe; }
# bats test_tags=gate
@test "siw: rping verifies 100 rounds" { with_chosen_provider 2 run_rping siw; }
# bats test_tags=gate
@test "rxe: ib_write_bw prints a bandwidth" { with_chosen_provider 2 run_perftest rxe ib_write_bw '-n 500 -s 4096'; }
# bats test_tags=gate
@test "siw: ib_write_bw prints a bandwidth" { with_chosen_provider 2 run_perftest siw ib_write_bw '-n 500 -s 4096'; }
@test "rxe: ib_send_lat prints a latency" { with_chosen_provider 2 run_perftest rxe ib_send_lat '-n 200'; }
@test "siw: ib_send_lat prints a latency" { with_chosen_provider 2 run_perftest siw ib_send_lat '-n 200'; }
# Not on rxe: this perftest has one channel for both CQs. If a reply arrives before the acknowledgement, as
# it may on rxe, it takes one CQ's event for the other's, and hangs.
@test "siw: ib_send_lat prints a latency, waiting for events" { with_chosen_provider 2 run_perftest siw ib_send_lat '-e -n 200'; }
# bats test_tags=gate
@test "rxe: ibv_rc_pingpong verifies 1000 rounds, polling" { with_chosen_provider 2 run_pingpong ''; }
# bats test_tags=gate
@test "rxe: ibv_rc_pingpong verifies 1000 rounds, waiting for events" { with_chosen_provider 2 run_pingpong -e; }
# bats test_tags=gate
@test "rxe: data_integrity verifies every byte of Send, Write and Read" { with_chosen_provider 2 verify_data_on rxe; }
# bats test_tags=gate
@test "siw: data_integrity verifies every byte of Send, Write and Read" { with_chosen_provider 2 verify_data_on siw; }
# bats test_tags=gate
@test "rxe: RC, UC and UD QPs with an unused queue of length zero transfer data" {
    with_chosen_provider 3 expect_right rxe zero-length-queues-rc zero-length-queues-uc zero-length-queues-ud
}
# bats test_tags=gate
@test "siw: a QP with a receive queue of length zero transfers data" {
    [[ ${PROVIDER:-stock} != stock ]] || skip 'the stock provider cannot create it'
    with_chosen_provider 1 expect_right siw zero-length-recv-queue
}
# bats test_tags=gate
@test "siw: a QP with a send queue of length zero is refused" {
    with_chosen_provider 1 expect_right siw zero-length-send-queue
}
# bats test_tags=gate
@test "rxe: ibv_post_send refuses atomics of less than 8 bytes or on an unaligned address, and the QP goes on" {
    with_chosen_provider 2 expect_right rxe atomic-short-list atomic-unaligned
}
# bats test_tags=gate
@test "rxe: such atomics by ibv_wr_* are refused, too; with the stock provider they complete with an error" {
    case ${PROVIDER:-stock} in
    stock) expect_right rxe invalid-atomics-ex-fail ;;
    *) with_chosen_provider 1 expect_right rxe invalid-atomics-ex-refused ;;
    esac
}
# bats test_tags=gate
@test "rxe: ibv_bind_mw refuses a zero-based MW of type 1, and the QP goes on" {
    with_chosen_provider 1 expect_right rxe bind-zero-based-mw
}
