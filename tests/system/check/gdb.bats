#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# coherdma check --gdb with gdb: it stops at each finding that is printed, in the frame of the program that made the
# wrong call, and the report is as without it.

# shellcheck disable=SC2154 # bats' run sets output
bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"
tool=$BUILD/tools/coherdma

setup() {
    command -v gdb >/dev/null || skip 'gdb is not installed'
    cd "$BATS_TEST_TMPDIR" || return
    echo 'set width 0' >.gdbinit
    export TMPDIR=$BATS_TEST_TMPDIR HOME=$BATS_TEST_TMPDIR COHERDMA_PROVIDER=$BUILD/provider/libcoherdma-rdmav34.so
    unset RDMAV_DRIVERS IBV_DRIVERS COHERDMA_SOFTRDMA
    DRIVER=${DRIVER:-rxe}
    device=("$DRIVER" "$(device_fact "$DRIVER" DEVICE)" "$(device_fact "$DRIVER" ADDRESS)")
}
teardown() { [[ -z $(find "$TMPDIR" -maxdepth 1 -name 'coherdma-check.*') ]]; }

# run_gdb STATUS GDB-COMMANDS CASE [OPTION...]: the wrong program of this case of the corpus. $output: all of it;
# the report is in the file report.
run_gdb() {
    local status=$1 commands=$2 case=$3
    shift 3
    run "-$status" bash -c 'printf "$1\n" | "${@:2}" 2>&1' bash "$commands" \
        "$tool" check --gdb --json --output report "$@" -- "$BUILD/tests/system/check/corpus/corpus" "$case" wrong "${device[@]}"
    echo "$output"
}
# expect_stop KIND: it has stopped at this finding, and the selected frame is in a line that is marked with the kind.
expect_stop() {
    local selected number
    selected=$(grep -A 4 "^\((gdb) \)*coherdma check: stopped: $1: " <<<"$output" | grep -m 1 '^#')
    [[ $selected =~ ^\#[0-9]+\ .*\ at\ (.*):([0-9]+)$ ]]
    number=${BASH_REMATCH[2]}
    sed -n "${number}p" "${BASH_REMATCH[1]}" | grep -F "// wrong: $1"
}
count_stops() { grep -c 'coherdma check: stopped: ' <<<"$output"; }

@test "it stops in the wrong call, which is in the backtrace, and the report has the finding" {
    run_gdb 1 'backtrace\ncontinue' dereg_under_receive
    expect_stop dereg-while-outstanding
    [[ $(grep -c ' in .*dereg_under_receive ()' <<<"$output") -ge 2 && $(count_stops) == 1 ]]
    [[ $output != *'noticed here'* && $output == *': dereg-while-outstanding: '*'stopped: dereg-while-outstanding: '* ]]
    [[ $(jq -r '.summary.errors, .summary.complete, .command_status' report | xargs) == '1 true 0' ]]
}

@test "gdb ends before the program: a note, and no summary" {
    run_gdb 255 'info frame' dereg_under_receive
    [[ $output == *'ended without a summary'* ]]
    jq -e '.findings[0].kind == "dereg-while-outstanding" and (.summary.complete | not)' report
}

@test "with --protect it stops at the access, and not at SIGSEGV" {
    run_gdb 1 'continue' read_used_before_completion --protect
    expect_stop early-access
    [[ $output != *'received signal'* && $(count_stops) == 1 ]]
}

@test "a change that is noticed later: it says so, in the frame of the poll" {
    run_gdb 1 'continue' buffer_used_for_next_message --ownership
    [[ $output == *'stopped: source-changed: '*'It is noticed here; the wrong call was made before.'* ]]
    grep -A 4 'It is noticed here' <<<"$output" | grep '^#.* check_corpus::'
}

@test "a wait that another thread reports: it names the thread that waits" {
    run_gdb 1 'handle SIGUSR1 nostop noprint pass\ninfo threads\ncontinue' wait_unarmed
    [[ $output =~ 'stopped: endless-wait: '.*'by the thread of LWP '([0-9]+)'; next: thread find ' ]]
    grep -E "Thread .*\(LWP ${BASH_REMATCH[1]}\) \"corpus\"" <<<"$output"
}

@test "no stop at findings that are suppressed, or only counted" {
    echo 'dereg-while-outstanding' >known
    run_gdb 0 '' dereg_under_receive --suppress known
    [[ $(count_stops) == 0 ]]
    jq -e '.summary.suppressed == 1' report
    run -1 bash -c 'yes continue | head -n 2 | "$@"' bash "$tool" check --gdb -- \
        "$BUILD/tests/system/check/corpus/many" threads 8 "${device[@]}"
    [[ $(count_stops) == 1 ]]
}

@test "a script, and a program that does not exist" {
    printf '#!/bin/sh\nexec "$@"\n' >script
    chmod +x script
    run -1 bash -c 'echo continue | "$@"' bash "$tool" check --gdb -- ./script \
        "$BUILD/tests/system/check/corpus/corpus" dereg_under_receive wrong "${device[@]}"
    echo "$output"
    expect_stop dereg-while-outstanding
    run -127 "$tool" check --gdb -- ./nosuch </dev/null
}

@test "on a terminal gdb reads its commands there" {
    command -v script >/dev/null || skip 'there is no script(1)'
    local command
    command="'$tool' check --gdb -- '$BUILD/tests/system/check/corpus/corpus' dereg_under_receive wrong ${device[*]}"
    touch typescript
    type_commands() {
        wait_until grep -q 'stopped: ' typescript
        printf 'p 6 * 7\n'
        wait_until grep -q ' = 42' typescript
        printf 'continue\n'
        wait_until grep -q 'exited normally' typescript
        printf 'quit\n'
    }
    type_commands | run -1 timeout 200 script -qefc "$command" typescript
    output=$(tr -d '\r' <typescript)
    echo "$output"
    [[ $(count_stops) == 1 && $output == *'(gdb) continue'*'1 error, 0 warnings at 1 place in 1 process'* ]]
}
