#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Programs of others with our libdat2, provider and driver under valgrind, both sides: no byte is used
# that nobody wrote, or that is nobody's, and none of ours is forgotten. What they said is not judged
# here, but that they came to an end of it is.
# Run by ci/stages: softrdma run --driver rxe|siw -- bats tests/system/dapl/memory.bats

bats_require_minimum_version 1.8.0
REGISTRY=ours PROVIDER=ours VERBS=ours
source "$BATS_TEST_DIRNAME/dapltest.bash"

setup() {
    prepare "$BATS_TEST_TMPDIR"
    LIMIT=120
    UNDER="valgrind --log-file=$out/%p.valgrind --error-exitcode=99 --leak-check=full
        --show-leak-kinds=definite --errors-for-leak-kinds=definite --num-callers=30
        --gen-suppressions=all --suppressions=$BATS_TEST_DIRNAME/memory.supp
        --suppressions=$BATS_TEST_DIRNAME/../../unit/valgrind.supp"
}
teardown() { dismiss; }

# clean COUNT BODY...: at least so many ran under valgrind to their end, and it found nothing.
clean() {
    local report least=$1 ran=0
    rm -f "$out"/*.valgrind
    "${@:2}"
    for report in "$out"/*.valgrind; do
        ran=$((ran + 1))
        grep -q 'ERROR SUMMARY: 0 errors' "$report" && continue
        complain "${report##*/}: $(grep -m 1 'ERROR SUMMARY' "$report" || echo 'no summary')"
        cat "$report"
    done
    ((ran >= least)) || complain "$ran programs ran under valgrind, not $least"
}

# conversed WORDS PROGRAM OPTION...: both said the words.
conversed() {
    converse waits_for_tcp "$2 -P $IA -s ${*:3}" "$2 -P $IA -h $ADDRESS ${*:3}"
    both "$1"
}
shared() {
    converse 'waits_for_cm 45248' "dtestsrq -P $IA -s $*" "dtestsrq -P $IA -h $ADDRESS $*"
    both 'DAPL RC SRQ Test Complete\.'
}
pinged() {
    local status=0 ping=$BUILD/release/tools/datping/datping
    serve "grep -q listens $out/server.out" "$ping" -s -I "$IA" || return 0
    as client "$ping" "$ADDRESS" -I "$IA" -m all -c 5 || status=$?
    outcome client $status
    expect client '\bsend +5 +0\b' '\bwrite +5 +0\b' '\bread +5 +0\b' '\bpingpong +5 +0\b'
    kill -INT "$server"
    wait "$server" || outcome server $?
    server=''
}

@test "valgrind: dtest" { held clean 2 conversed 'DAPL Test Complete. PASSED' dtest -b 4096; }
@test "valgrind: dtest -c, with a CNO" { held clean 2 conversed 'DAPL Test Complete. PASSED' dtest -b 4096 -c; }
@test "valgrind: dtestx" {
    [[ $DRIVER == rxe ]] || skip 'iWARP has none of what dtestx tries'
    held clean 2 conversed 'IB extension test - immed/atomic test PASSED' dtestx
}
@test "valgrind: dtestsrq" { held clean 2 shared -c 4 -b 2048; }
@test "valgrind: dtestcm" { held clean 2 conversed 'DAPL Connection Test Complete\.' dtestcm -c 30 -b 10; }
@test "valgrind: dtestcm -m -w" { held clean 2 conversed 'DAPL Connection Test Complete\.' dtestcm -c 30 -b 10 -m -w; }
@test "valgrind: dapltest -T T -V: all kinds" {
    held clean 3 transaction '-i 10 -V' client RW 4096 2 server RR 8192 1 client SR 1024 3 server SR 1024 3 \
        server RW 256 1 client RR 256 1
}
@test "valgrind: dapltest -T T: two threads, two endpoints each" {
    held clean 3 transaction '-i 10 -t 2 -w 2' client SR 256 1 server SR 256 1
}
@test "valgrind: datping" { held clean 2 pinged; }
