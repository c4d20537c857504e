# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# shellcheck shell=bash
#
# How dapltest runs, and what is to be read in what it prints. Its ports are the test's own, and none
# of those from which connections get theirs.
source "${BASH_SOURCE[0]%/*}/judge.bash"

PORT=$((20000 + 1000 * (BATS_TEST_NUMBER % 12)))

ready() { grep -q 'Service Point Ready' "$out/server.out"; }

# tested KIND DONE OPTIONS OPERATION...: a client's test with a server, which says DONE, a little later
# than the client. It is asked to quit then. What it says of that is not judged: on rxe it is often
# told that its last message was lost, because the client has gone before it acknowledged it.
tested() {
    local status=0 kind=$1 done=$2 options=$3 until
    shift 3
    serve ready dapltest -T S -D "$IA" -n "$PORT" || {
        dismiss
        return 0
    }
    # shellcheck disable=SC2086 # words
    as client dapltest -T "$kind" -s "$ADDRESS" -D "$IA" -n "$PORT" $options "$@" || status=$?
    outcome client $status
    expect client 'End of Work -- Client Exiting'
    until=$((SECONDS + 10))
    until grep -q "$done" "$out/server.out" || ! kill -0 "$server" 2>/dev/null || ((SECONDS >= until)); do :; done
    expect server "$done"
    no_trouble server client
    ! kill -0 "$server" 2>/dev/null || left
    expect server 'DT_cs_Server .*Exiting'
    dismiss
}
# left: the server does what a client asks who says quit, if it gets through to it.
left() {
    local until
    mv "$out/client.out" "$out/client.done"
    for _ in 1 2 3; do
        LIMIT=10 as client dapltest -T Q -s "$ADDRESS" -D "$IA" -n "$PORT" || true
        until=$((SECONDS + 3))
        while kill -0 "$server" 2>/dev/null && ((SECONDS < until)); do sleep 0.05; done
        ! kill -0 "$server" 2>/dev/null || continue
        break
    done
    mv "$out/client.done" "$out/client.out"
}

# option LETTER DEFAULT WORD...: its value among the words
option() {
    local letter=$1 value=$2
    shift 2
    while (($#)); do
        [[ $1 != "-$letter" ]] || value=$2
        shift
    done
    echo "$value"
}

# transaction OPTIONS OPERATION...: so many iterations of the operations, by each thread on each of
# its endpoints. Of -V come three messages of 4096 bytes more. An operation is WHO WHAT SIZE PIECES.
transaction() {
    local options=$1 threads endpoints count sent=0 got=0 read=0 written=0 bytes
    shift
    # shellcheck disable=SC2086 # words
    count=$(option i 1000 $options) threads=$(option t 1 $options) endpoints=$(option w 1 $options)
    tested T 'Transaction Test Finished for this client' "$options" "$@"
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
    total Send $((sent * count))
    total Recv $((got * count))
    total 'RDMA Read' $((read * count))
    total 'RDMA Write' $((written * count))
}
total() { # WHAT BYTES: it prints millions of bytes with two digits, and leaves out the rest
    expect client "^Total $1 *: +$(($2 / 1000000))\\.$(printf %02d $(($2 / 10000 % 100))) MB"
}

# performance MODE COUNT DEPTH WHAT SIZE PIECES: b blocks, p polls. Whether the data arrived is not
# looked at.
performance() {
    local mode=blocking
    [[ $1 == b ]] || mode=polling
    tested P 'Finished performance test\.  Detaching' "-m $1 -i $2 -p $3" "$4" "$5" "$6"
    expect client "Mode +: $mode" "Operation Type +: $4" "Number of Operations : $2" "Segment Size +: $5" \
        "Number of Segments +: $6" "Pipeline Length +: $3" 'Bandwidth +: [0-9.]*[1-9][0-9.]* MB/sec' \
        'Operation Throughput : [0-9.]*[1-9]'
}

# limit WHAT PATTERN...: a hundred of them, in sets of eight.
limit() {
    local what=$1
    shift
    alone dapltest -T L -D "$IA" -n "$PORT" -w 8 -m 100 "$what"
    expect client "Limitation Test +$what" "$@"
}

# functional FEATURE NUMBER CASE...: each is one small test. It says PASS even if what it asserts does
# not hold. It listens itself at the port, so there must be no server.
functional() {
    local feature=$1 line
    shift
    alone dapltest -T F -D "$IA" -n "$PORT" -f "$feature" -s "$ADDRESS" "${@/#/case}"
    while read -r line; do complain "client: $line"; done < <(grep -A 1 -E \
        'failed in file|Result: FAIL|Warning|ERROR|not get expected' "$out/client.out")
    times client $# '^Result: PASS'
}
