#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Cases of conform and unclosed, and OFED's programs, on an emulated device whose local buffers the Provider has to
# sync, as on a real one: they pass with the Provider (OFED's: ../ofed/CMakeLists.txt), and fail with a finding if it is
# built without its syncs (CMakeLists.txt).

bats_require_minimum_version 1.5.0

setup() {
    : "${BUILD:=$PWD/build/release}"
    driver=${SOFTRDMA_DEVICE%%[0-9]*}
    # Kernels before 7.0 drop what was not written back when memory is deregistered.
    export COHERDMA_EMULATE=stale COHERDMA_EMULATE_LOCAL_BUFFERS=program COHERDMA_EMULATE_OPTIONS=linux-pre-7.0-dereg
    export COHERDMA_EMULATE_LOG=$BATS_TEST_TMPDIR/findings.json
}

# run_case CASE [without]: with the Provider that is built without that. A crash is not among its results; sets
# findings.
run_case() {
    local program=conform
    [[ $1 != unclosed.* ]] || program=unclosed
    if [[ ${2:-} ]]; then
        export PROVIDER_FOLDER=$BUILD/tests/system/udapl/without_sync/$2
        export OUR_PROVIDER=$PROVIDER_FOLDER/libdaplcoherdma.so.2
    fi
    run "$BATS_TEST_DIRNAME/../$program/run" "$1"
    echo "$output"
    ((status < 2)) # 1: a case has failed
    mapfile -t findings < <(grep '"coherdma":"finding"' "$COHERDMA_EMULATE_LOG")
    [[ $(tail -n 1 "$COHERDMA_EMULATE_LOG") == '{"coherdma":"summary",'* ]]
    [[ $output == *"1..1"* && $output != *'Bail out!'* && $output != *'# crashed'* && $output != *'# never returned'* ]]
}

# expect_needed SYNC CASE KIND [REQUEST]: without the sync the case fails, with a finding of this kind, on a request
# that is described like that.
expect_needed() {
    local finding
    run_case "$2" "$1"
    [[ $'\n'$output == *$'\n'"not ok 1 - $2"* ]]
    for finding in "${findings[@]}"; do
        [[ $finding != *"\"kind\":\"$3\","*"${4:-}"* ]] || return 0
    done
    echo "no finding $3 ${4:-}"
    return 1
}

# expect_needed_by_ofed KIND BODY...: without the syncs at posts and completions one of OFED's programs fails, as BODY
# of ../ofed/*.bash runs it, with a finding of this kind that is not suppressed.
expect_needed_by_ofed() {
    # shellcheck disable=SC2034 # for ofed.bash
    local REGISTRY=coherdma PROVIDER=coherdma LIMIT=20 out server
    local OUR_PROVIDER=$BUILD/tests/system/udapl/without_sync/local_sync/libdaplcoherdma.so.2
    export COHERDMA_EMULATE_EXIT=9
    source "$BATS_TEST_DIRNAME/../ofed/dapltest.bash"
    source "$BATS_TEST_DIRNAME/../ofed/dtest.bash"
    prepare "$BATS_TEST_TMPDIR"
    : >"$out/complaints"
    "${@:2}"
    expect_our_plugin
    cat "$out/complaints"
    run ! grep -q 'our plugin did not serve' "$out/complaints"
    [[ -s $out/complaints ]]
    grep -q "\"kind\":\"$1\",.*\"suppressed\":false" "$COHERDMA_EMULATE_LOG"
}

only() { [[ $driver == "$1" ]] || skip "$driver: $2"; }

cases='dto.send dto.rdma_write dto.rdma_read dto.atomics srq.two_takers lmr.free_keeps_data ia.close_abrupt_keeps_data
    unclosed.exit_keeps_data'

@test "with the syncs the cases pass without a finding" {
    for case in $cases; do
        run_case "$case"
        [[ $'\n'$output == *$'\n'"ok 1 - $case"* && ! ${findings[*]} ]]
    done
}
@test "without local syncs a Send sends old data" { expect_needed local_sync dto.send unsynced-source 'Send of'; }
@test "without local syncs a receive shows old data" { expect_needed local_sync dto.send stale-sink 'Receive of'; }
@test "without local syncs an RDMA Write writes old data" { expect_needed local_sync dto.rdma_write unsynced-source 'RDMA Write of'; }
@test "without local syncs an RDMA Read shows old data" { expect_needed local_sync dto.rdma_read stale-sink 'RDMA Read of'; }
@test "without local syncs a receive of an SRQ shows old data" { expect_needed local_sync srq.two_takers stale-sink 'Receive of'; }
@test "without local syncs an atomic operation returns old data" {
    only rxe 'no atomic operations'
    expect_needed local_sync dto.atomics unsynced-sink
}
@test "without writing back dat_lmr_free loses data" { expect_needed writeback lmr.free_keeps_data discarded; }
@test "without writing back an abrupt dat_ia_close loses data" { expect_needed writeback ia.close_abrupt_keeps_data discarded; }
@test "without writing back exit() loses data" { expect_needed writeback unclosed.exit_keeps_data discarded; }
@test "without local syncs dapltest's Sends fail" {
    expect_needed_by_ofed unsynced-source run_transaction '-i 200' client SR 4096 2 server SR 4096 2
}
@test "without local syncs dapltest's RDMA Writes fail" { expect_needed_by_ofed unsynced-source run_performance b 256 16 RW 4096 2; }
@test "without local syncs dtest fails" { expect_needed_by_ofed unsynced-source run_dtest "$all" -b 4096; }
