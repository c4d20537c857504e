#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Programs of rdma-core and perftest under the checker, server and client: it has no finding about them,
# but those that are explained beside the test. PROVIDER=stock: over the provider of rdma-core.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"

# run_checked FUNCTION DRIVER [ARGUMENT...]: the function runs a server and a client, with the checker. Both
# must have written a summary, but one that is KILLED. Findings of the kind EXPLAINED are right.
run_checked() {
    export COHERDMA_OBSERVERS=$BUILD/provider/libcoherdma-check.so COHERDMA_CHECK_LOG=$BATS_TEST_TMPDIR/check.%p
    export RDMAV_DRIVERS=$BUILD/provider/libcoherdma-observers
    [[ ${PROVIDER:-} == stock ]] || RDMAV_DRIVERS=$BUILD/provider/libcoherdma:$RDMAV_DRIVERS
    "$@"
    "$BATS_TEST_DIRNAME/findings.py" ${KILLED:+--killed} ${EXPLAINED:+--explained "$EXPLAINED"} "$BATS_TEST_TMPDIR"/check.*
}
run_pingpong_of() { run_pingpong "$3" "$2"; } # DRIVER PROGRAM OPTIONS
run_ud_pingpong() { # DRIVER OPTIONS
    local options
    options="$2 -n 200 -d $(device_fact rxe DEVICE) -g $(device_fact rxe GID_INDEX)"
    READY='is_listening_tcp 18515' run_server_client "ibv_ud_pingpong $options" \
        "ibv_ud_pingpong $options $(device_fact rxe ADDRESS)"
    expect_output client '^200 iters'
}
# run_cm_program DRIVER PORT PROGRAM OPTIONS [SERVER-OPTION CLIENT-OPTION]
run_cm_program() { run_programs "$1" "$2" "$3 ${5:--b @} $4" "$3 ${6:--s @} $4"; }
run_rdma_client() { run_programs "$1" 7471 rdma_server 'rdma_client -s @'; }
run_cmtime() { run_with_daemon "$1" 7471 'cmtime -b @ -c 10' 'cmtime -s @ -c 10'; } # DRIVER
run_rcopy() { # DRIVER
    READY='is_listening 7427 --rsocket' run_with_daemon "$1" 7427 rcopy "rcopy /bin/ls @:$BATS_TEST_TMPDIR/copy"
}
run_ucx_perftest() { # DRIVER OPTIONS
    local options
    command -v ucx_perftest >/dev/null || skip 'ucx_perftest is not installed'
    options="ucx_perftest -d $(device_fact "$1" DEVICE):1 -s 1024 -n 100 -w 0 $2"
    READY='is_listening_tcp 13337' run_server_client "$options" "$options $(device_fact "$1" ADDRESS)"
}
run_riostream_of() { # DRIVER
    local options='-S 65536 -C 50 -I 1'
    READY='is_listening 7471 --rsocket' run_programs "$1" 7471 "riostream -b @ $options" "riostream -s @ $options"
}
run_rstream_of() { # DRIVER OPTIONS
    local options="-S 65536 -C 50 -I 1 $2"
    READY='is_listening 7471 --rsocket' run_programs "$1" 7471 "rstream -b @ $options" "rstream -s @ $options"
}
@test "rxe: ib_send_bw -n 200 -s 4096" { run_checked run_perftest rxe ib_send_bw '-n 200 -s 4096'; }
@test "rxe: ib_send_bw -n 200 -s 4096 -e" { run_checked run_perftest rxe ib_send_bw '-n 200 -s 4096 -e'; }
@test "rxe: ib_send_bw -n 100 -s 4096 -q 4" { run_checked run_perftest rxe ib_send_bw '-n 100 -s 4096 -q 4'; }
@test "rxe: ib_write_bw -n 200 -s 4096" { run_checked run_perftest rxe ib_write_bw '-n 200 -s 4096'; }
@test "rxe: ib_write_bw -n 200 -b" { run_checked run_perftest rxe ib_write_bw '-n 200 -b'; }
@test "rxe: ib_read_bw -n 200 -s 4096" { run_checked run_perftest rxe ib_read_bw '-n 200 -s 4096'; }
@test "rxe: ib_read_bw -n 200 -s 4096 -e" { run_checked run_perftest rxe ib_read_bw '-n 200 -s 4096 -e'; }
@test "rxe: ib_send_lat -n 200" { run_checked run_perftest rxe ib_send_lat '-n 200'; }
@test "rxe: ib_write_lat -n 200" { run_checked run_perftest rxe ib_write_lat '-n 200'; }
@test "rxe: ib_read_lat -n 200" { run_checked run_perftest rxe ib_read_lat '-n 200'; }
@test "siw: ib_send_bw -n 200 -s 4096" { run_checked run_perftest siw ib_send_bw '-n 200 -s 4096'; }
# It may hang: see retry_perftest.
@test "siw: ib_send_bw -n 200 -s 4096 -e" { LIMIT=30 PERFTEST_MAY_HANG=yes run_checked run_perftest siw ib_send_bw '-n 200 -s 4096 -e'; }
@test "siw: ib_send_bw -n 100 -s 4096 -q 4" { run_checked run_perftest siw ib_send_bw '-n 100 -s 4096 -q 4'; }
@test "siw: ib_write_bw -n 200 -s 4096" { run_checked run_perftest siw ib_write_bw '-n 200 -s 4096'; }
@test "siw: ib_write_bw -n 200 -b" { run_checked run_perftest siw ib_write_bw '-n 200 -b'; }
@test "siw: ib_read_bw -n 200 -s 4096" { run_checked run_perftest siw ib_read_bw '-n 200 -s 4096'; }
@test "siw: ib_read_bw -n 200 -s 4096 -e" { run_checked run_perftest siw ib_read_bw '-n 200 -s 4096 -e'; }
@test "siw: ib_send_lat -n 200" { run_checked run_perftest siw ib_send_lat '-n 200'; }
@test "siw: ib_write_lat -n 200" { run_checked run_perftest siw ib_write_lat '-n 200'; }
@test "siw: ib_read_lat -n 200" { run_checked run_perftest siw ib_read_lat '-n 200'; }
@test "siw: ib_send_lat -n 200 -e" { run_checked run_perftest siw ib_send_lat '-n 200 -e'; }
@test "rxe: ib_send_bw, SRQ" { run_checked run_perftest rxe ib_send_bw '-n 200 -s 4096 --use-srq'; }
@test "rxe: ib_send_bw -c UD" { run_checked run_perftest rxe ib_send_bw '-n 200 -s 1024 -c UD'; }
@test "rxe: ib_atomic_bw" { run_checked run_perftest rxe ib_atomic_bw '-n 200'; }
@test "rxe: ib_atomic_lat" { run_checked run_perftest rxe ib_atomic_lat '-n 200'; }
@test "rxe: rping" { run_checked run_rping rxe 20; }
@test "siw: rping" { run_checked run_rping siw 20; }
@test "rxe: ibv_rc_pingpong" { run_checked run_pingpong_of rxe ibv_rc_pingpong ''; }
@test "rxe: ibv_rc_pingpong -e" { run_checked run_pingpong_of rxe ibv_rc_pingpong -e; }
@test "rxe: ibv_rc_pingpong -N" { run_checked run_pingpong_of rxe ibv_rc_pingpong -N; }
@test "rxe: ibv_uc_pingpong -e" { run_checked run_pingpong_of rxe ibv_uc_pingpong -e; }
# It posts a send while fewer than 1000 are complete, so with 16 QPs some are left when it destroys them in RTS.
@test "rxe: ibv_srq_pingpong" { EXPLAINED=destroy-while-outstanding run_checked run_pingpong_of rxe ibv_srq_pingpong ''; }
@test "rxe: ibv_srq_pingpong -e" { EXPLAINED=destroy-while-outstanding run_checked run_pingpong_of rxe ibv_srq_pingpong -e; }
@test "rxe: ibv_ud_pingpong" { run_checked run_ud_pingpong rxe ''; }
@test "rxe: ibv_ud_pingpong -e" { run_checked run_ud_pingpong rxe -e; }
@test "rxe: rdma_client, rdma_server" { run_checked run_rdma_client rxe; }
@test "siw: rdma_client, rdma_server" { run_checked run_rdma_client siw; }
@test "rxe: ucmatose" { run_checked run_cm_program rxe 7471 ucmatose '-c 2 -C 20 -S 1024'; }
@test "siw: ucmatose" { run_checked retry_siw_early_data run_cm_program siw 7471 ucmatose '-c 2 -C 20 -S 1024'; }
# The client's sends are not signaled, and no completion says that they have been sent.
@test "rxe: udaddy" { EXPLAINED=destroy-while-outstanding run_checked run_cm_program rxe 7174 udaddy '-c 2 -C 20 -S 512'; }
@test "rxe: rstream" { run_checked run_rstream_of rxe ''; }
@test "siw: rstream" { run_checked run_rstream_of siw ''; }
@test "rxe: riostream" { run_checked run_riostream_of rxe; }
@test "rxe: cmtime" { KILLED=yes run_checked run_cmtime rxe; }
@test "siw: cmtime" { KILLED=yes run_checked run_cmtime siw; }
@test "rxe: rcopy" { KILLED=yes run_checked run_rcopy rxe; }
@test "siw: rcopy" { KILLED=yes run_checked run_rcopy siw; }
@test "rxe: ib_read_lat -n 200 -e" { run_checked run_perftest rxe ib_read_lat '-n 200 -e'; }
@test "siw: ib_read_lat -n 200 -e" { run_checked run_perftest siw ib_read_lat '-n 200 -e'; }
@test "rxe: ucx_perftest, rc_verbs Writes" { run_checked run_ucx_perftest rxe '-x rc_verbs -t put_bw -D zcopy'; }
