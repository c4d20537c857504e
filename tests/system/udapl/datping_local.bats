#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# datping on a device that is not coherent, as COHERDMA_EMULATE says: the Provider syncs the memory of datping's own
# DTOs, and datping the memory that its peer accesses. COHERDMA_EMULATE_EXIT is the status of a process with findings.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/datping.bash"

setup_file() {
    export LD_LIBRARY_PATH=$BUILD/udapl:$BUILD/ibverbs-glue${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export COHERDMA_PROVIDER=$BUILD/provider/libcoherdma-rdmav34.so
    export DAT_OVERRIDE=/dev/null
}
setup() {
    driver=${SOFTRDMA_DEVICE%%[0-9]*}
}

# run_ping OPTION...: all data are right, without a finding. The results are in $output.
run_ping() {
    run_direct -0 --separate-stderr "$ping" "${!driver}" "$@"
    echo "$output"
    [[ $stderr == *'coherdma: emulation: no findings'* ]]
}
expect_server_without_finding() {
    expect_server_status 0
    expect_output server 'coherdma: emulation: no findings'
}
stop_server_without_finding() {
    kill -INT "$server"
    expect_server_without_finding
}

# bats test_tags=gate
@test "datping verifies data in every mode, waiting" {
    start_server "$driver"
    for size in ${SIZES:-1 64 4097 256k}; do
        run_ping -m all -c 10 -S "$size"
        [[ ${lines[1]} == *'lmr_sync_req: yes here, yes there' ]]
        for mode in send write read pingpong; do has_rounds $mode 10 0; done
    done
    stop_server_without_finding
}
@test "datping verifies data in every mode, polling" {
    start_server "$driver" --poll
    for size in 1 4097 256k; do
        run_ping -m all -c 10 -S $size --poll
        for mode in send write read pingpong; do has_rounds $mode 10 0; done
    done
    run_ping -m all -c 10 --wait
    stop_server_without_finding
    start_server "$driver"
    run_ping -m all -c 10 --poll
    stop_server_without_finding
}
@test "datping verifies data in each mode alone, in many rounds" {
    start_server "$driver"
    for mode in send write read pingpong; do
        run_ping -m $mode -c 200 -S 100
        has_rounds $mode 200 0
    done
    stop_server_without_finding
}
@test "datping verifies data with each option" {
    start_server "$driver" -S 1M -t 60 -v
    run_ping -m all -c 4 -S 5000 --no-verify
    run_ping -m all -c 4 -S 5000 -v -i 0.01
    run_ping -m all -c 4 -S 1M -q -t 60
    run_ping -m all -c 4 -S 5000 --json
    [[ $(jq -c '[.good, .lmr_sync_req, (.modes | map([.rounds, .wrong]))]' <<<"$output") \
        == '[true,{"local":true,"peer":true},[[4,0],[4,0],[4,0],[4,0]]]' ]]
    stop_server_without_finding
    start_server "$driver" --once --json
    run_ping -m all -c 4
    expect_server_without_finding
}
@test "a datping server serves four clients at once" {
    start_server "$driver"
    local -a clients=()
    for number in 1 2 3 4; do
        "$ping" "${!driver}" -m all -c 30 -S ${number}k -q 3>&- &
        clients+=($!)
    done
    for number in "${clients[@]}"; do wait "$number"; done
    stop_server_without_finding
    [[ $(grep -c 'rounds: 120, wrong: 0$' "$BATS_TEST_TMPDIR/server.out") == 4 ]]
}
# A client that fails prints no summary, but its findings.
@test "datping has no finding if it is rejected, or its server is stopped" {
    start_server "$driver" -S 64
    run_direct -1 "$ping" "${!driver}" -S 65
    [[ $output == *'rejected the connection'* && $output != *coherdma:* ]]
    "$ping" "${!driver}" -v -c 0 -i 0.1 >"$BATS_TEST_TMPDIR/client.out" 2>&1 3>&- &
    local client=$! status=0
    wait_for_output client round=2
    stop_server_without_finding
    wait $client || status=$?
    ((status == 1))
    run ! has_printed client coherdma:
}
