#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# OFED's programs with our libdat2, provider and driver, both sides under valgrind: no uninitialized or freed byte is
# used, and none is leaked. Of their output only the last line is checked.

bats_require_minimum_version 1.8.0
REGISTRY=coherdma PROVIDER=coherdma VERBS=coherdma
source "$BATS_TEST_DIRNAME/dapltest.bash"

setup() {
    prepare "$BATS_TEST_TMPDIR"
    LIMIT=400
    UNDER="valgrind --log-file=$out/%p.valgrind --error-exitcode=99 --leak-check=full
        --show-leak-kinds=definite --errors-for-leak-kinds=definite --num-callers=30
        --gen-suppressions=all --suppressions=$BATS_TEST_DIRNAME/valgrind.supp
        --suppressions=$BATS_TEST_DIRNAME/../../../unit/valgrind.supp"
}
teardown() { end_server; }

# run_under_valgrind COUNT BODY...: at least so many programs ran under valgrind to their end, without a finding.
run_under_valgrind() {
    local report min=$1 ran=0
    rm -f "$out"/*.valgrind
    "${@:2}"
    for report in "$out"/*.valgrind; do
        ran=$((ran + 1))
        grep -q 'ERROR SUMMARY: 0 errors' "$report" && continue
        complain "${report##*/}: $(grep -m 1 'ERROR SUMMARY' "$report" || echo 'no summary')"
        cat "$report"
    done
    ((ran >= min)) || complain "$ran programs ran under valgrind, not $min"
}

# run_pair PATTERN PROGRAM OPTION...: both printed a line like that.
run_pair() {
    run_server_and_client is_listening_dtest "$2 -P $IA -s ${*:3}" "$2 -P $IA -h $ADDRESS ${*:3}"
    expect_both "$1"
}
run_dtestsrq() {
    run_server_and_client 'is_listening 45248' "dtestsrq -P $IA -s $*" "dtestsrq -P $IA -h $ADDRESS $*"
    expect_both 'DAPL RC SRQ Test Complete\.'
}
run_datping() {
    local status=0 ping=$BUILD/tools/datping/datping
    start_server "grep -q listens $out/server.out" "$ping" -s -I "$IA" || return 0
    run_side client "$ping" "$ADDRESS" -I "$IA" -m all -c 5 || status=$?
    check_status client $status
    expect client '\bsend +5 +0\b' '\bwrite +5 +0\b' '\bread +5 +0\b' '\bpingpong +5 +0\b'
    kill -INT "$server"
    wait "$server" || check_status server $?
    server=''
}

@test "valgrind: dtest runs without a finding" { run_with_known_faults run_under_valgrind 2 run_pair 'DAPL Test Complete. PASSED' dtest -b 4096; }
@test "valgrind: dtest -c runs without a finding" { run_with_known_faults run_under_valgrind 2 run_pair 'DAPL Test Complete. PASSED' dtest -b 4096 -c; }
@test "valgrind: dtestx runs without a finding" {
    [[ $DRIVER == rxe ]] || skip 'iWARP has none of the extensions'
    run_with_known_faults run_under_valgrind 2 run_pair 'IB extension test - immed/atomic test PASSED' dtestx
}
@test "valgrind: dtestsrq runs without a finding" { run_with_known_faults run_under_valgrind 2 run_dtestsrq -c 4 -b 2048; }
@test "valgrind: dtestcm runs without a finding" { run_with_known_faults run_under_valgrind 2 run_pair 'DAPL Connection Test Complete\.' dtestcm -c 30 -b 10; }
@test "valgrind: dtestcm -m -w runs without a finding" { run_with_known_faults run_under_valgrind 2 run_pair 'DAPL Connection Test Complete\.' dtestcm -c 30 -b 10 -m -w; }
@test "valgrind: dapltest -T T -V runs without a finding" {
    run_with_known_faults run_under_valgrind 3 run_transaction '-i 10 -V' client RW 4096 2 server RR 8192 1 client SR 1024 3 server SR 1024 3 \
        server RW 256 1 client RR 256 1
}
@test "valgrind: dapltest -T T -t 2 -w 2 runs without a finding" {
    run_with_known_faults run_under_valgrind 3 run_transaction '-i 10 -t 2 -w 2' client SR 256 1 server SR 256 1
}
@test "valgrind: datping runs without a finding" { run_with_known_faults run_under_valgrind 2 run_datping; }
