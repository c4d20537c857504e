# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# shellcheck shell=bash
#
# For stages: source it, then record results. The contract is in ci/README.md.
set -euo pipefail

# What was compiled before, here or in another clone, is not compiled again.
if command -v ccache >/dev/null; then
    export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
    export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
fi

# A result is one line of tab-separated fields, so what goes in has neither tabs nor line ends.
one_line() { tr -s '\t\n' '  ' <<<"$1" | sed 's/ *$//'; }

pass() { printf 'pass\t%s\n' "$(one_line "$1")" >>"$RESULTS"; }
fail() { printf 'fail\t%s\t%s\n' "$(one_line "$1")" "$(one_line "$2")" >>"$RESULTS"; }
skip() { printf 'skip\t%s\t%s\n' "$(one_line "$1")" "$(one_line "$2")" >>"$RESULTS"; }

# check NAME COMMAND...: passes if the command does; its first error, or its last line, says why
# it failed.
# It always returns 0, and leaves the command's status in checked. Do not call it in a condition or
# before ||: there the shell ignores set -e even inside COMMAND, and failures would go unseen; it
# notices that and fails.
check() {
    local name=$1 output
    shift
    printf '== %s\n' "$name"
    output=$(mktemp)
    set +e
    (
        set -e
        false
        echo 'check was called in a condition'
    ) >"$output"
    if [[ -s $output ]]; then
        checked=1
    else
        (
            set -e
            "$@"
        ) >"$output" 2>&1
        checked=$?
    fi
    set -e
    cat "$output"
    if ((checked == 0)); then
        [[ -n ${FILTER:-} ]] || pass "$name"
    else
        fail "$name" "$(grep -m 1 -E 'error: |CMake Error' "$output" || tail -n 1 "$output" |
            grep . || echo "exit status $checked")"
    fi
    rm -f "$output"
}

# Turns the TAP stream on stdin into results, and passes it on to the log. A stream that ends
# before its plan is fulfilled is a failure.
tap() {
    local line bad name failing='' why='' comment='' plan='' seen=0
    local result='^(not )?ok [0-9]+ ?-? ?(.*)$' skipped='^(.*[^ ]) *# [sS][kK][iI][pP] ?(.*)$'
    settle() {
        [[ -z $failing ]] || fail "$failing" "${why:-no reason given}"
        failing='' why=''
    }
    while IFS= read -r line; do
        printf '%s\n' "$line"
        if [[ $line =~ ^1\.\.([0-9]+) ]]; then
            plan=${BASH_REMATCH[1]}
        elif [[ $line =~ $result ]]; then
            settle
            seen=$((seen + 1))
            bad=${BASH_REMATCH[1]} name=${BASH_REMATCH[2]}
            if [[ $name =~ ^'# SKIP '(.+) ]]; then # cmocka's way; its message is before it
                comment=${comment#skipped: }
                skip "${BASH_REMATCH[1]}" "${comment:-no reason given}"
            elif [[ -n $bad ]]; then
                failing=$name
            elif [[ $name =~ $skipped ]]; then
                skip "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]:-no reason given}"
            else
                pass "$name"
            fi
        elif [[ $line == '#'* ]]; then
            comment=${line#"${line%%[!# ]*}"}
            [[ -z $failing || ${#why} -ge 150 ]] || why+=${why:+ }$comment
        fi
    done
    settle
    [[ $seen == "$plan" ]] || fail 'TAP plan' "$seen results, ${plan:-none} planned"
}

# Where tests of devices run: a user-mode kernel, unless LAB says otherwise (qemu).
# shellcheck disable=SC2034
lab=${LAB:-uml}
only=() # what scripts/test -k asked for
[[ -z ${FILTER:-} ]] || only=(--filter "$FILTER")

run_bats() {
    chosen "$@" || return 0
    printf '== bats %s\n' "$*"
    bats --formatter tap --print-output-on-failure "${only[@]}" "$@" 2>&1 | tap || grep -q '^fail' "$RESULTS" ||
        fail "bats $*" 'exit status is not 0, but no test failed'
}

run_cmocka() { # PROGRAM...
    local program
    [[ -z ${FILTER:-} ]] || return 0 # -k is about tests of devices
    for program in "$@"; do
        printf '== %s\n' "$program"
        CMOCKA_MESSAGE_OUTPUT=TAP timeout 120 "$program" 2>&1 | tap || grep -q '^fail' "$RESULTS" ||
            fail "$program" 'exit status is not 0, but no test failed'
    done
}

# chosen [OPTION...] FILE...: with -k, whether there is such a test at all in one of the files.
chosen() { [[ -z ${FILTER:-} ]] || cat "${@##-*}" 2>/dev/null | grep -qE "^@test .*($FILTER)"; }

# run_in_lab OPTION... -- FILE...: run bats files where soft devices exist; options as for
# softrdma run. A guest that dies cuts the TAP stream short, which is a failure. Hosts may have a
# kernel each, so the tests' temporary folder is one that all see.
run_in_lab() {
    local options=() shared
    while [[ $1 != -- ]]; do
        options+=("$1")
        shift
    done
    shift
    chosen "$@" || return 0
    printf '== softrdma run %s -- bats %s\n' "${options[*]}" "$*"
    shared=$(mktemp -d)
    scripts/softrdma run "${options[@]}" --write "$shared" -- env TMPDIR="$shared" bats --formatter tap --print-output-on-failure "${only[@]}" "$@" 2>&1 | tap ||
        grep -q '^fail' "$RESULTS" || fail "bats $*" 'exit status is not 0, but no test failed'
    rm -rf "$shared"
}

# run_conform DRIVER: with the parts that the environment names.
run_conform() {
    scripts/softrdma run --in "$lab" --driver "$1" -- tests/system/conform/run 2>&1 | tap ||
        grep -q '^fail' "$RESULTS" || fail "conform on $1" 'exit status is not 0, but no case failed'
}

# named PREFIX COMMAND...: what it records has that before its names.
named() {
    local prefix=$1 results=$RESULTS RESULTS
    shift
    RESULTS=$(mktemp)
    "$@"
    sed "s/^\([a-z]*\t\)/\1$prefix: /" "$RESULTS" >>"$results"
    rm -f "$RESULTS"
}

# run_on DRIVER OPTION... -- FILE...: the same with a device of that driver, which is named before its
# tests: drivers may have the same.
run_on() { named "$1" run_in_lab --driver "$@"; }
