#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The report names lines of the program if that runs with ASan, or communicates by MPI over UCX.

# shellcheck disable=SC2154 # bats' run sets stderr
bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"
source_folder=$BATS_TEST_DIRNAME/../../..

setup() { cd "$BATS_TEST_TMPDIR" || return; }

# expect_asan_report CALL OPTION...: mailbox lacks one sync; the terminal's report and the page name the call's line,
# and the line of the allocation, which ASan knows.
expect_asan_report() {
    local call=$1 line
    shift
    unset RDMAV_DRIVERS
    export COHERDMA_PROVIDER=$BUILD/provider/libcoherdma-rdmav34.so
    gcc -g -fsanitize=address "-I$source_folder/ibverbs-glue/include" "$source_folder/examples/mailbox.c" \
        "$BUILD/ibverbs-glue/libcoherdma.so.1" "-Wl,-rpath,$BUILD/ibverbs-glue" -lrdmacm -libverbs -o mailbox ||
        skip 'gcc cannot build it with ASan'
    run -1 --separate-stderr "$BUILD/tools/coherdma" emulate --html page -- ./mailbox "$@" "$(device_fact rxe ADDRESS)"
    echo "$stderr" | head -n 40
    line=$(grep -n 'transfer(peer, IBV_WR_RDMA_READ' "$source_folder/examples/mailbox.c")
    [[ ${stderr_lines[0]} == *"/mailbox.c:${line%%:*}: insert $call(device, &range, 1);" ]]
    line=$(grep -n aligned_alloc "$source_folder/examples/mailbox.c")
    [[ $stderr == *"(allocated at mailbox.c:${line%%:*})"* && $stderr != *AddressSanitizer* ]]
    grep -qE "mailbox\.c:[0-9]+: insert $call\(device, &amp;range, 1\);" page
}
@test "ASan: a missing sync before an RDMA Read" { expect_asan_report coherdma_sync_before_read --skip-sync read; }
@test "ASan without marks: a missing sync after an RDMA Write" {
    export COHERDMA_EMULATE_OPTIONS=nomarks # else ASan ends the program at the access
    expect_asan_report coherdma_sync_after_write --skip-sync write
}

# run_put: two ranks, with the findings of each in a file.
run_put() {
    local program
    for program in mpicc.openmpi mpirun.openmpi; do
        command -v "$program" >/dev/null || skip "$program is not installed; try: ci/setup packages-mpi"
    done
    mpicc.openmpi -g "$BATS_TEST_DIRNAME/emulation/put.c" -o put
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 UCX_WARN_UNUSED_ENV_VARS=n
    export UCX_TLS=rc_verbs,ud_verbs,self UCX_NET_DEVICES=$SOFTRDMA_RXE_DEVICE:1
    export UCX_UD_VERBS_ETH_DGID_CHECK=n # KNOWN_FAULTS.md, U1
    export RDMAV_DRIVERS=$BUILD/provider/libcoherdma-observers COHERDMA_EMULATE=stale COHERDMA_EMULATE_LOG=%p.json
    run mpirun.openmpi -n 2 --oversubscribe -mca pml ucx -mca osc ucx ./put
    echo "$output" | head -n 40
    jq -cs '.[] | select(.coherdma == "finding") | [.kind, .registered[0], .request.stack[0], .before.stack[0]]' ./*.json | sort | uniq -c
    in_program='test("^(main|exchange) \\(/.*/put\\.c:[0-9]+\\)$")'
}

@test "MPI: memory that the other rank puts to is named by the program's lines" {
    run_put
    [[ $status == 0 && $output == *"/put.c:"*": insert coherdma_sync_after_write(device, &range, 1);"* && $output == *'region '*': MPI_Win_create(memory, '* ]]
    for rank in ./*.json; do
        jq -es "map(select(.coherdma == \"finding\")) | length == 1 and all(.kind == \"stale\" and
            ([.registered[0], .request.stack[0], .after.stack[0], .before.stack[0]] | all($in_program)))" "$rank"
    done
}

# MPI_Init() registers them, more than 24 frames below; a thread of UCX does, too. UCX may abort: it reads stale data.
@test "MPI: no finding about its own buffers names a line of MPI" {
    export COHERDMA_EMULATE_LOCAL_BUFFERS=program
    run_put
    for rank in ./*.json; do
        jq -es "map(select(.coherdma == \"finding\") | .registered[0]) | any($in_program) and
            (any(test(\"/(libmpi|libopen|mca_|libucp)\")) | not)" "$rank"
    done
}
