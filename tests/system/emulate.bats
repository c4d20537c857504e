#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# coherdma emulate where soft devices are: what it tells of a program that forgets a sync, and that
# the program is otherwise left as it is.
# Run by ci/stages: softrdma run --driver both -- bats tests/system/emulate.bats

# shellcheck disable=SC2154 # bats' run sets stderr
bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/lib.bash"
tool=$BUILD/release/tools/coherdma
mailbox=$BUILD/release/examples/mailbox

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    export TMPDIR=$BATS_TEST_TMPDIR COHERDMA_PROVIDER=$BUILD/release/provider/libcoherdma-rdmav34.so
    unset RDMAV_DRIVERS IBV_DRIVERS COHERDMA_SOFTRDMA
    rxe=$(of rxe ADDRESS)
}
teardown() { [[ -z $(find "$TMPDIR" -maxdepth 1 -name 'coherdma-emulate.*') ]]; }

emulate() { "$tool" emulate "$@"; }
# emulated STATUS WORD...: the command ends with it; its report is in $output, the rest in $stderr.
emulated() {
    local status=$1
    shift
    run "-$status" --separate-stderr emulate "$@"
    for line in "${lines[@]}"; do ((${#line} <= 80)) || { echo "long: $line" && return 1; }; done
}

syncs() { # DRIVER
    emulated 0 --mode all,through --line 128 -- "$mailbox" "$(of "$1" ADDRESS)"
    [[ $(grep -c '^all letters have arrived' <<<"$output") == 6 ]]
    for mode in stale poison evict:1 evict:2 evict:3 through; do
        grep -qE "^$mode +0 +1 +0 +0 +0$" <<<"$output"
    done
    [[ $output != *missing* ]]
}
@test "rxe: of a program that syncs nothing is told, in any mode" { syncs rxe; }
@test "siw: of a program that syncs nothing is told, in any mode" { syncs siw; }

forgets() { # DRIVER KIND: without either sync the region, the call and the place are told
    emulated 1 --mode all --json --output report -- "$mailbox" --forget "$2" "$(of "$1" ADDRESS)"
    [[ $output == *"round "* && $(jq .status report) == 1 ]]
    [[ $(jq -r '[.places[].device] | unique[]' report) == "$(of "$1" DEVICE)" ]]
    case $2 in
    read) missing='sync_rdma_read before the Read' kind=unsynced-read ;;
    write) missing='sync_rdma_write after the Write' kind=stale ;;
    esac
    jq -e --arg kind "$kind" --arg missing "$missing" '.places[] | select(.kind == $kind and
        .missing == $missing and .region_length == 256 and (.registered_at[0] | contains("/mailbox+")))' report
    jq -e '.runs | length == 5 and all(.complete and .played) and .[0].count > 0' report
}
@test "rxe: a forgotten sync before a Read is told" { forgets rxe read; }
@test "siw: a forgotten sync before a Read is told" { forgets siw read; }
@test "rxe: a forgotten sync after a Write is told" { forgets rxe write; }
@test "siw: a forgotten sync after a Write is told" { forgets siw write; }

@test "the table: a row for each run, a paragraph for each place, the place of the last sync" {
    emulated 1 -m stale,poison -- "$mailbox" --forget read "$rxe"
    [[ $output == *MODE*STATUS*PROCESSES*FINDINGS* ]]
    grep -qE '^stale +1 +1 +[1-9]' <<<"$output"
    grep -qE "^unsynced-read +$(of rxe DEVICE) +region 2, bytes 0\.\." <<<"$output"
    grep -qE '^  missing     sync_rdma_read before the Read$' <<<"$output"
    grep -A1 '^  request     RDMA Read of 256 bytes$' <<<"$output" | grep -qE '^ {14}.*\(mailbox\+0x[0-9a-f]+\)$'
    grep -qE '^  last sync   none$' <<<"$output"
    grep -qE '^  times       poison [0-9]+, stale [0-9]+$' <<<"$output"
}

@test "the log has every finding, with its mode; --status is for findings alone" {
    emulated 9 --status 9 --log all.json -m poison -- sh -c "'$mailbox' --forget write $rxe || exit 0"
    [[ $(jq -r .mode all.json | sort -u) == poison && $(jq -r .coherdma all.json | sort -u) == finding ]]
    COHERDMA_EMULATE_EXIT=8 emulated 3 --status 9 -- sh -c "'$mailbox' --forget write $rxe; [ \$? = 1 ] && exit 3"
    emulated 0 --status 0 -- sh -c "'$mailbox' --forget write $rxe || exit 0"
}

@test "what is suppressed is counted and no failure" {
    echo 'unsynced-read : * : ma*   # known' >known
    emulated 0 --suppress known -- sh -c "cd /; '$mailbox' --forget read $rxe || exit 0"
    grep -qE '^stale +0 +1 +0 +[1-9]' <<<"$output"
}

@test "values that cannot be are refused before anything runs" {
    refused() {
        run -2 --separate-stderr emulate "$@"
        [[ -z $output && $stderr == coherdma:*'see: coherdma --help' && ! -e ran ]]
    }
    touch readable
    for words in '--mode steel' '--mode off' '--mode evict:x' '--line 48' '--option all' \
        '--status 256' '--status x' '--suppress nowhere' '--suppress /' '--driver mlx5' '--here --lab' \
        '--nonsense' '--output'; do
        # shellcheck disable=SC2086
        refused $words -- touch ran || { echo "not refused: $words" && return 1; }
    done
    refused
    refused --
    refused --mode stale --
    run -1 --separate-stderr emulate --log nowhere/log -- touch ran
    [[ $stderr == *'cannot write nowhere/log: No such file'* && ! -e ran ]]
}

@test "statuses, streams and arguments of the command are its own" {
    run -3 --separate-stderr emulate -- sh -c 'cat; echo "$@" >&2; exit 3' -- '[a]' --mode -- x <<<in
    [[ ${lines[0]} == in && ${stderr_lines[0]} == '[a] --mode -- x' ]]
    run -127 --separate-stderr emulate no-such-program
    [[ $stderr == *'cannot run no-such-program: No such file'* ]]
    run -126 --separate-stderr emulate /
    run -137 --separate-stderr emulate -- sh -c 'kill -KILL $$'
}

@test "that nothing was emulated is told, and no success" {
    emulated 77 -- true
    [[ $stderr == *'stale: nothing was emulated'*'coherdma status'* ]]
    grep -qE '^stale +0 +0 +0' <<<"$output"
    emulated 77 -m stale,poison -- sh -c "[ \$COHERDMA_EMULATE = stale ] || exec '$mailbox' $rxe"
    emulated 77 -- env -u RDMAV_DRIVERS "$mailbox" "$rxe"
}

@test "a process that is killed before it could tell is no success" {
    export -f listener
    emulated 1 -- bash -c "rping -s -a $rxe -p 7181 & until [[ \$(listener 7181) ]]; do :; done; kill -KILL \$!; wait"
    [[ $stderr == *'was ended before it could tell all'* ]]
}

@test "signals go to the command, and no other run begins" {
    status=0
    "$tool" emulate --mode all -- bash -c 'trap "echo trapped; exit 7" TERM; echo begun; for ((i = 0; i < 400; ++i)); do sleep 0.05; done' >out 2>err 3>&- &
    pid=$!
    awaited 20 grep -q begun out
    kill -TERM "$pid"
    wait "$pid" || status=$?
    [[ $status == 143 ]]
    [[ $(grep -c trapped out) == 1 && $(grep -c begun out) == 1 ]]
    grep -qE '^stale +7 ' out
    emulated 130 --mode all -- sh -c 'kill -INT $$' # as a Ctrl-C in the lab
    [[ $(grep -cE '^[a-z:0-9]+ +130' <<<"$output") == 1 && $output != *poison* ]]
}
