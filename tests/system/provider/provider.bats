#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Programs that do not know coherdma on an rxe device that our plugin serves. The plugin logs which device
# it opened: each test ends with a look at that log.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"

setup() {
    plugin=$BUILD/provider/libcoherdma
    use_our_provider
}

@test "rxe: a program that opens the device has the plugin mapped" {
    rping -s -a "$(device_fact rxe ADDRESS)" >/dev/null 2>&1 3>&- &
    wait_until is_listening 7174
    grep -q "$plugin-rdmav" "/proc/$!/maps"
    kill $!
    wait $! || true # its status is that of the signal
    expect_served rxe 1
}
@test "rxe: without RDMAV_DRIVERS the plugin serves no device" {
    unset RDMAV_DRIVERS
    run -0 ibv_devinfo -d "$(device_fact rxe DEVICE)"
    [[ ! -e $VERBS_LOG_FILE ]] || run ! grep coherdma "$VERBS_LOG_FILE"
}
@test "rxe: ibv_devinfo -v reports what it reports with the stock provider" {
    diff -u --label stock <(env -u RDMAV_DRIVERS ibv_devinfo -v) --label coherdma <(ibv_devinfo -v)
    expect_served rxe 1
}
@test "rxe: rping verifies 100 rounds" {
    run_rping rxe
    expect_served rxe 2
}
@test "rxe: ib_write_bw prints a bandwidth" {
    run_perftest rxe ib_write_bw '-n 500 -s 4096'
    expect_served rxe 2
}
@test "rxe: ib_read_bw prints a bandwidth" {
    run_perftest rxe ib_read_bw '-n 500 -s 4096'
    expect_served rxe 2
}
@test "rxe: ib_send_lat prints a latency" {
    run_perftest rxe ib_send_lat '-n 200'
    expect_served rxe 2
}
@test "rxe: ib_atomic_lat prints a latency" {
    run_perftest rxe ib_atomic_lat '-n 200'
    expect_served rxe 2
}
@test "rxe: ibv_rc_pingpong verifies 1000 rounds, polling" {
    run_pingpong ''
    expect_served rxe 2
}
@test "rxe: ibv_rc_pingpong verifies 1000 rounds, waiting for events" {
    run_pingpong -e
    expect_served rxe 2
}
@test "rxe: ibv_srq_pingpong completes 1000 rounds" {
    run_pingpong '' ibv_srq_pingpong
    expect_served rxe 2
}
@test "rxe: data_integrity verifies every byte of Send, Write and Read" {
    verify_data_on rxe
    expect_served rxe 2
}
@test "rxe: perftest and ibv_rc_pingpong post by the ibv_wr_* API on QPs connected without rdma_cm" {
    local options
    options="-d $(device_fact rxe DEVICE) -x $(device_fact rxe GID_INDEX) -n 200 -s 4096"
    for program in ib_write_bw ib_send_bw ib_read_bw; do
        READY='is_listening_tcp 18515' run_perftest_commands "$program $options" "$(device_fact rxe ADDRESS)"
    done
    run_pingpong -N
    expect_served rxe 8
}
# Native flushes, where the kernel and rdma-core have them: flush.bats.
@test "rxe: coherdma_flush on a QP without native flush reads back, and needs permission" {
    run -0 "$BUILD/tests/system/coherdma/flush" "$(device_fact rxe DEVICE)" "$(device_fact rxe GID_INDEX)" read-back read-back-without-permission
    [[ ${lines[0]} == 'read-back: right (read back, success)' ]]
    [[ ${lines[1]} == 'read-back-without-permission: right (read back, remote access error)' ]]
    expect_served rxe 2
}
