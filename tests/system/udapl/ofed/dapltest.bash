# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# shellcheck shell=bash
#
# Runs dapltest, and checks its output. Each test has its own ports, outside TCP's ephemeral range.
source "${BASH_SOURCE[0]%/*}/dapltest_result.bash"

is_unsynced='' # the program verifies memory that its peer accesses, on a device that is not coherent
PORT=$((20000 + 1000 * (BATS_TEST_NUMBER % 12)))

is_dapltest_ready() { has_printed server 'Service Point Ready'; }

# run_dapltest KIND DONE OPTIONS OPERATION...: a client's test with a server, which prints DONE after the client has
# ended, and is then asked to quit. What it prints of that is not checked: on rxe its last message often fails, since
# the client disconnects before it acknowledges it (KNOWN_FAULTS.md).
run_dapltest() {
    local status=0 kind=$1 done=$2 options=$3 until
    shift 3
    start_server is_dapltest_ready dapltest -T S -D "$IA" -n "$PORT" || {
        end_server
        return 0
    }
    # shellcheck disable=SC2086 # words
    run_side client dapltest -T "$kind" -s "$ADDRESS" -D "$IA" -n "$PORT" $options "$@" || status=$?
    check_status client $status
    expect client 'End of Work -- Client Exiting'
    until=$((SECONDS + LIMIT))
    until has_printed server "$done" || ! kill -0 "$server" 2>/dev/null || ((SECONDS >= until)); do pause 0.05; done
    expect server "$done"
    [[ $is_unsynced ]] || expect_no_trouble server client
    ! kill -0 "$server" 2>/dev/null || quit_server
    expect server 'DT_cs_Server .*Exiting'
    end_server
}
# quit_server: asks the server to quit, again if it does not end: the request may not reach it (KNOWN_FAULTS.md).
quit_server() {
    local until text
    read_text "$out/client.out"
    for _ in {1..10}; do
        LIMIT=30 run_side client dapltest -T Q -s "$ADDRESS" -D "$IA" -n "$PORT" || true # the server's end counts
        until=$((SECONDS + 10))
        while kill -0 "$server" 2>/dev/null && ((SECONDS < until)); do pause 0.05; done
        ! kill -0 "$server" 2>/dev/null || continue
        break
    done
    printf %s "$text" >"$out/client.out"
}

# set_option VARIABLE LETTER WORD...: to the value of the option that the words have, if any.
set_option() {
    local -n variable=$1
    local letter=$2
    shift 2
    while (($#)); do
        # shellcheck disable=SC2034 # a reference
        [[ $1 != "-$letter" ]] || variable=$2
        shift
    done
}

# run_transaction OPTIONS OPERATION...: iterations of the operations, by each thread on each of its endpoints. -V adds
# three messages of 4096 bytes. An operation is SIDE KIND SIZE SEGMENTS. With COHERDMA_EMULATE, -V and RDMA operations,
# there must be a finding, and in mode stale wrong data. Without -V the peer writes the zeros that are there, or reads
# them: no byte shows a missing sync.
run_transaction() {
    local options=$1 threads=1 endpoints=1 count=1000 sent=0 got=0 read=0 written=0 bytes
    shift
    if [[ " $* " == *' R'[RW]' '* ]]; then
        suppress_peer_access peer_access.supp
        [[ $options == *-V* ]] || has_finding=''
        is_unsynced=${has_finding:+${COHERDMA_EMULATE:-}}
    fi
    # shellcheck disable=SC2086 # words
    set_option count i $options && set_option threads t $options && set_option endpoints w $options
    run_dapltest T 'Transaction Test Finished for this client' "$options" "$@"
    if [[ $is_unsynced ]]; then
        [[ $COHERDMA_EMULATE != stale ]] || expect client 'Validation Error'
        return
    fi
    [[ $options != *-V* ]] || sent=4096 got=8192
    while (($#)); do
        bytes=$(($3 * $4))
        case "$1 $2" in
        'client SR') sent=$((sent + bytes)) ;;
        'server SR') got=$((got + bytes)) ;;
        *RR) read=$((read + bytes)) ;;
        *RW) written=$((written + bytes)) ;;
        esac
        shift 4
        [[ ${1:-} != -f ]] || shift
    done
    expect client "Stats ---- : $threads threads, $endpoints EPs" "Total WQE +: +[0-9]*[1-9]"
    count=$((count * threads * endpoints))
    expect_total Send $((sent * count))
    expect_total Recv $((got * count))
    expect_total 'RDMA Read' $((read * count))
    expect_total 'RDMA Write' $((written * count))
}
expect_total() { # KIND BYTES: dapltest prints millions of bytes, truncated to two digits
    local hundredths
    printf -v hundredths %02d $(($2 / 10000 % 100))
    expect client "^Total $1 *: +$(($2 / 1000000))\\.$hundredths MB"
}

# run_performance MODE COUNT DEPTH KIND SIZE SEGMENTS: b blocks, p polls. It does not verify data. A slow machine has 0.0 MB/sec.
run_performance() {
    local mode=blocking
    [[ $1 == b ]] || mode=polling
    run_dapltest P 'Finished performance test\.  Detaching' "-m $1 -i $2 -p $3" "$4" "$5" "$6"
    expect client "Mode +: $mode" "Operation Type +: $4" "Number of Operations : $2" "Segment Size +: $5" \
        "Number of Segments +: $6" "Pipeline Length +: $3" 'Bandwidth +: [0-9.]+ MB/sec' \
        'Operation Throughput : [0-9.]+'
}

# run_limit LIMIT PATTERN...: a hundred objects, in sets of eight.
run_limit() {
    local limit=$1
    shift
    run_alone dapltest -T L -D "$IA" -n "$PORT" -w 8 -m 100 "$limit"
    expect client "Limitation Test +$limit" "$@"
}

# run_functional FEATURE CASE...: each case is a small test. It prints PASS even if its assertions fail. It listens at
# the port itself: no server may run.
run_functional() {
    local feature=$1 line
    shift
    run_alone dapltest -T F -D "$IA" -n "$PORT" -f "$feature" -s "$ADDRESS" "${@/#/case}"
    while read -r line; do complain "client: $line"; done < <(grep -A 1 -E \
        'failed in file|Result: FAIL|Warning|ERROR|not get expected' "$out/client.out")
    expect_times client $# '^Result: PASS'
}
