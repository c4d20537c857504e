#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# coherdma emulate with soft devices: it reports a program that lacks a sync, and does not change the program
# otherwise.

# shellcheck disable=SC2154 # bats' run sets stderr
bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"
tool=$BUILD/tools/coherdma
mailbox=$BUILD/examples/mailbox

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    export TMPDIR=$BATS_TEST_TMPDIR COHERDMA_PROVIDER=$BUILD/provider/libcoherdma-rdmav34.so
    unset RDMAV_DRIVERS IBV_DRIVERS COHERDMA_SOFTRDMA
    rxe=$(device_fact rxe ADDRESS)
}
teardown() { [[ -z $(find "$TMPDIR" -maxdepth 1 -name 'coherdma-emulate.*') ]]; }

emulate() { "$tool" emulate "$@"; }
# run_emulate STATUS ARGUMENT...: its report is in $output, other messages in $stderr.
run_emulate() {
    local status=$1
    shift
    run "-$status" --separate-stderr emulate "$@"
    for line in "${lines[@]}"; do ((${#line} <= 80)) || { echo "long: $line" && return 1; }; done
}

expect_no_findings() { # DRIVER
    run_emulate 0 --mode all,passthrough --line 128 -- "$mailbox" "$(device_fact "$1" ADDRESS)"
    [[ $(grep -c '^all letters have arrived' <<<"$output") == 6 ]]
    for mode in stale poison evict:1 evict:2 evict:3 passthrough; do
        grep -qE "^$mode +0 +1 +0 +0 +0 +0$" <<<"$output"
    done
    [[ $output != *missing* ]]
}
# bats test_tags=gate
@test "rxe: no finding in a program that syncs, in any mode" { expect_no_findings rxe; }
# bats test_tags=gate
@test "siw: no finding in a program that syncs, in any mode" { expect_no_findings siw; }

expect_missing_sync() { # DRIVER KIND: the report has the region, the call and the code location
    run_emulate 1 --mode all --json --output report -- "$mailbox" --skip-sync "$2" "$(device_fact "$1" ADDRESS)"
    [[ $output == *"round "* && $(jq .status report) == 1 ]]
    [[ $(jq -r '[.places[].device] | unique[]' report) == "$(device_fact "$1" DEVICE)" ]]
    case $2 in
    read) missing='sync before the Read' kind=unsynced-read ;;
    write) missing='sync after the Write' kind=stale ;;
    esac
    jq -e --arg kind "$kind" --arg missing "$missing" '.places[] | select(.kind == $kind and
        .missing == $missing and (.insert | startswith("coherdma") | not) and .region_length == 256 and (.registered_at[0] | test("/mailbox\\.c:[0-9]+\\)$")))' report
    jq -e '.runs | length == 5 and all(.complete and .emulated) and .[0].count > 0' report
}
# bats test_tags=gate
@test "rxe: a missing sync before an RDMA Read is reported" { expect_missing_sync rxe read; }
# bats test_tags=gate
@test "siw: a missing sync before an RDMA Read is reported" { expect_missing_sync siw read; }
# bats test_tags=gate
@test "rxe: a missing sync after an RDMA Write is reported" { expect_missing_sync rxe write; }
# bats test_tags=gate
@test "siw: a missing sync after an RDMA Write is reported" { expect_missing_sync siw write; }

@test "the report has a row for each run and a paragraph for each code location" {
    run_emulate 1 -m stale,poison -- "$mailbox" --skip-sync read "$rxe"
    [[ $output == *MODE*STATUS*PROCESSES*CERTAIN*POSSIBLE* ]]
    grep -qE '^stale +1 +1 +[1-9]' <<<"$output"
    grep -qE '^\S*mailbox\.c:[0-9]+: insert coherdma_sync_before_read\(device, &range, 1\);$' <<<"$output"
    grep -qE '^  memory      struct ibv_mr \*outbox = reg_letter' <<<"$output"
    grep -qE "^unsynced-read +$(device_fact rxe DEVICE) +region 2, bytes 0\.\." <<<"$output"
    grep -qE '^  missing     sync before the Read$' <<<"$output"
    grep -A1 '^  request     RDMA Read of 256 bytes$' <<<"$output" | grep -qE '^ {14}[a-z_]+ \((examples/)?mailbox\.c:[0-9]+\)$'
    grep -qE '^  last sync   none$' <<<"$output"
    grep -qE '^  times       poison [0-9]+, stale [0-9]+$' <<<"$output"
}

@test "option --html writes a page that names the place of the missing sync" {
    run_emulate 1 --html page -- "$mailbox" --skip-sync write "$rxe"
    [[ $stderr != *"$TMPDIR"/coherdma-emulate* ]] # removed, so not named
    grep -qF '<h2>1. Missing: sync after the Write</h2>' page
    grep -qE 'mailbox\.c:([0-9]+): insert coherdma_sync_after_write\(device, &amp;range, 1\);</code> between the completion polled at mailbox\.c:\1 in transfer\(\) and the sync at mailbox\.c:[0-9]+<' page
    grep -qF 'missing here: sync after the Write' page
    grep -qE 'inferred: the device wrote lines between [0-9]+ and [0-9]+ \(the request of [0-9]+\)' page
    run_emulate 1 --html page -- "$mailbox" --skip-sync read "$rxe"
    grep -qE 'inferred: the CPU wrote lines between 1 and 2' page
    run_emulate 0 --html page -- "$mailbox" "$rxe"
    grep -qF 'No findings.' page
}

@test "option --log has every finding with its mode; --status applies to findings only" {
    run_emulate 9 --status 9 --log all.json -m poison -- sh -c "'$mailbox' --skip-sync write $rxe || exit 0"
    [[ $(jq -r .mode all.json | sort -u) == poison && $(jq -r .coherdma all.json | sort -u) == finding ]]
    COHERDMA_EMULATE_EXIT=8 run_emulate 3 --status 9 -- sh -c "'$mailbox' --skip-sync write $rxe; [ \$? = 1 ] && exit 3"
    run_emulate 0 --status 0 -- sh -c "'$mailbox' --skip-sync write $rxe || exit 0"
}

@test "datinfo, which asks each IA in a child process, has no findings" {
    export DAT_OVERRIDE=/dev/null LD_LIBRARY_PATH=$BUILD/udapl/registry:$BUILD/udapl:$BUILD/ibverbs-glue
    run_emulate 0 --mode stale -- "$BUILD/tools/datinfo/datinfo"
    [[ $output == *libdaplcoherdma.so.2* ]]
    grep -qE '^stale +0 +[1-9][0-9]* +0 +0 +0 +0$' <<<"$output"
}

expect_emulated_by_name() { # DRIVER
    device=$(device_fact "$1" DEVICE)
    query=("$BUILD/tests/system/provider/query_device" --by-name "$device")
    run -0 --separate-stderr emulate --mode evict:7 --line 128 -- "${query[@]}"
    [[ ${lines[0]} == "$device is non-coherent: coherdma emulates a non-coherent device (coherdma's emulation: mode evict:7) line 128" ]]
    run -0 --separate-stderr "${query[@]}"
    [[ $output == "$device is coherent: "* ]]
}
@test "rxe: a device opened only by name is emulated" { expect_emulated_by_name rxe; }
@test "siw: a device opened only by name is emulated" { expect_emulated_by_name siw; }

@test "a device that a process cannot open is evaluated by name" {
    chmod 0600 /dev/infiniband/uverbs*
    run -0 --separate-stderr as_nobody "$BUILD/tests/system/provider/query_device" --by-name "$(device_fact rxe DEVICE)"
    chmod 0666 /dev/infiniband/uverbs*
    [[ $output == *' is coherent: the CPU moves the data of a software device (RDMA netlink: driver rxe) line '* ]]
}

@test "suppressed findings are counted, and are no failure" {
    echo 'unsynced-read : * : ma*   # known' >known
    run_emulate 0 --suppress known -- sh -c "cd /; '$mailbox' --skip-sync read $rxe || exit 0"
    grep -qE '^stale +0 +1 +0 +0 +[1-9]' <<<"$output"
}

@test "the line that the report gives suppresses the finding" {
    run_emulate 1 -- "$mailbox" --skip-sync write "$rxe"
    sed -n 's/^  suppress    //p' <<<"$output" >known
    [[ $(<known) == stale:*:transfer ]]
    run_emulate 0 --suppress known -- sh -c "'$mailbox' --skip-sync write $rxe || exit 0"
}

@test "invalid arguments are refused before the command runs" {
    expect_refused() {
        run -2 --separate-stderr emulate "$@"
        [[ -z $output && $stderr == coherdma:*'see: coherdma --help' && ! -e ran ]]
    }
    touch readable
    for words in '--mode steel' '--mode off' '--mode evict:x' '--line 48' '--local-buffers kernel' '--option all' \
        '--status 256' '--status x' '--suppress nowhere' '--suppress /' '--driver mlx5' '--here --lab' \
        '--bogus' '--output'; do
        # shellcheck disable=SC2086
        expect_refused $words -- touch ran || { echo "not refused: $words" && return 1; }
    done
    expect_refused
    expect_refused --
    expect_refused --mode stale --
    for option in --output --html --log; do
        expect_refused "$option" '' -- touch ran
        run -1 --separate-stderr emulate "$option" nowhere/file -- touch ran
        [[ $stderr == *'cannot write nowhere/file: No such file'* && ! -e ran ]]
    done
}

@test "status, streams and arguments of the command pass unchanged" {
    run -3 --separate-stderr emulate -- sh -c 'cat; echo "$@" >&2; exit 3' -- '[a]' --mode -- x <<<in
    [[ ${lines[0]} == in && ${stderr_lines[0]} == '[a] --mode -- x' ]]
    run -127 --separate-stderr emulate no-such-program
    [[ $stderr == *'cannot run no-such-program: No such file'* ]]
    run -126 --separate-stderr emulate /
    run -137 --separate-stderr emulate -- sh -c 'kill -KILL $$'
}

@test "nothing emulated: status 77 and a message" {
    run_emulate 77 -- true
    [[ $stderr == *'stale: nothing was emulated'*'coherdma status'* ]]
    grep -qE '^stale +0 +0 +0' <<<"$output"
    run_emulate 77 -m stale,poison -- sh -c "[ \$COHERDMA_EMULATE = stale ] || exec '$mailbox' $rxe"
    run_emulate 77 -- env -u RDMAV_DRIVERS "$mailbox" "$rxe"
}

@test "a process that is killed before its summary is a failure" {
    run_emulate 1 -- bash -c "rping -s -a $rxe -p 7181 & until [[ \$(listener_pid 7181) ]]; do sleep 0.05; done; kill -KILL \$!; wait"
    [[ $stderr == *'ended without a summary'* ]]
}

@test "a process that a signal ends has a summary" {
    for signal in TERM INT HUP; do
        run_emulate 1 --json --output report -- bash -c "set -m
            rping -s -a $rxe -p 7182 & until [[ \$(listener_pid 7182) ]]; do sleep 0.05; done
            rping -c -a $rxe -p 7182 -v >rounds & client=\$!
            until [[ -s rounds ]]; do sleep 0.05; done
            kill -$signal \$client; wait \$client; echo \$? >status; wait; exit 0"
        [[ $(<status) == "$((128 + $(kill -l "$signal")))" && $stderr != *'ended without a summary'* ]]
        jq -e '.runs[0].complete and (.runs[0].processes | length) == 2' report
        rm rounds
    done
}

@test "a process whose signal handler calls exit() during a sync has a summary" {
    for _ in {1..10}; do
        run_emulate 3 -- timeout -k 1 20 "$BUILD/tests/system/coherdma/emulation/registers" "$(device_fact rxe DEVICE)" exit
        [[ $stderr != *'ended without a summary'* ]]
        grep -qE '^stale +3 +1 +0' <<<"$output"
    done
}

@test "signals reach the command, and no further run begins" {
    status=0
    "$tool" emulate --mode all -- bash -c 'trap "echo trapped; exit 7" TERM; echo begun; while :; do sleep 0.05; done' >out 2>err 3>&- &
    pid=$!
    wait_until grep -q begun out
    kill -TERM "$pid"
    wait "$pid" || status=$?
    [[ $status == 143 ]]
    [[ $(grep -c trapped out) == 1 && $(grep -c begun out) == 1 ]]
    grep -qE '^stale +7 ' out
    run_emulate 130 --mode all -- sh -c 'kill -INT $$' # as a Ctrl-C in the lab
    [[ $(grep -cE '^[a-z:0-9]+ +130' <<<"$output") == 1 && $output != *poison* ]]
}
