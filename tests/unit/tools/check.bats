#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# coherdma check, with a softrdma that runs the command here, and a command that writes the observer's log.

# shellcheck disable=SC2154 # bats' run sets stderr
bats_require_minimum_version 1.5.0
tool=$BUILD/tools/coherdma

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    export TMPDIR=$BATS_TEST_TMPDIR COHERDMA_PROVIDER=$BATS_TEST_TMPDIR/plugins/libcoherdma-rdmav34.so
    export COHERDMA_SOFTRDMA=$BATS_TEST_TMPDIR/softrdma
    unset RDMAV_DRIVERS IBV_DRIVERS COHERDMA_OBSERVERS COHERDMA_CHECK_EXIT
    mkdir plugins
    touch plugins/libcoherdma-{observers-rdmav34,check}.so
    cat >softrdma <<'END'
#!/bin/sh
[ "$*" != "${*#run --driver }" ] || exit 9
while [ "$1" != -- ]; do shift; done
shift
exec "$@"
END
    # program LEVEL...: a process that has these findings.
    cat >program <<'END'
#!/bin/bash
env >environment
line=100 errors=0 warnings=0
for level; do
    place="\"function\": \"main\", \"file\": \"/src/x.c\", \"line\": $((++line))"
    echo '{"kind": "cq-overflow", "level": "'"$level"'", "device": "rxe0", "title": "64 completions can come",' \
        '"why": "w", "fix": "f", "place": {'"$place"', "source": []}, "events": [], "suppression": "cq-overflow",' \
        '"repeated": 0, "suppressed": false, "pid": 1, "time": 0}'
    [[ $level == error ]] && ((++errors)) || ((++warnings))
done >"${COHERDMA_CHECK_LOG//%p/$$}"
[[ -v KILLED ]] || echo '{"summary": {"errors": '$errors', "warnings": '$warnings', "suppressed": 0,' \
    '"repeated": 0, "by_kind": {}, "by_place": ['"$#"']}}' >>"${COHERDMA_CHECK_LOG//%p/$$}"
exit "${STATUS:-0}"
END
    chmod +x softrdma program
}
teardown() { [[ -z $(find "$TMPDIR" -maxdepth 1 -name 'coherdma-check.*') ]]; }

@test "status: the command's, else by findings" {
    run -0 --separate-stderr "$tool" check --lab -- ./program
    [[ $output == '0 errors, 0 warnings in 1 process' ]]
    [[ $stderr == 'coherdma: --lab is set; running in the lab: softrdma run --driver rxe' ]]
    run -1 "$tool" check --lab -- ./program warning
    run -1 "$tool" check --lab -- ./program error
    run -9 "$tool" check --lab --status 9 -- ./program error
    run -0 "$tool" check --lab --status 0 -- ./program error
    STATUS=7 run -7 "$tool" check --lab --status 9 -- ./program error
}

@test "nothing was checked: status 77 and a suggestion" {
    run -77 --separate-stderr "$tool" check --lab -- true
    [[ $stderr == *'nothing was checked: '*'see: coherdma status' ]]
}

@test "a program with the memory sanitizer has a library preloaded, also if a shell starts it" {
    cp /bin/false plugins/libcoherdma-msan.so # the dynamic linker only warns of it
    run -0 "$tool" check --lab -- ./program
    run ! grep -E '^(LD_PRELOAD|LD_BIND_NOW)=' environment
    grep -x 'MLX5_SCATTER_TO_CQE=0' environment
    echo '# __msan_init' >>program
    local preload
    preload="LD_PRELOAD=$PWD/plugins/libcoherdma-msan.so"
    run -0 "$tool" check --lab -- ./program
    grep -xF "$preload" environment
    grep -x 'LD_BIND_NOW=1' environment
    rm environment
    MLX5_SCATTER_TO_CQE=1 run -0 "$tool" check --lab -- sh -c 'exec ./program'
    grep -xF "$preload" environment
    grep -x 'MLX5_SCATTER_TO_CQE=1' environment
    rm plugins/libcoherdma-msan.so
    run -77 "$tool" check --lab -- ./program
    [[ $output == *'cannot read '*'libcoherdma-msan.so'* ]]
}

# A gdb that keeps its commands and arguments, and runs the program.
fake_gdb() {
    mkdir bin
    cat >bin/gdb <<'END'
#!/bin/bash
[[ $1 == -q && $2 == --return-child-result && $3 == -x && $5 == --args && ! -v LD_PRELOAD ]] || exit 99
cp "$4" commands
shift 5
printf '%s\n' "$@" >arguments
exec "$@"
END
    chmod +x bin/gdb
    PATH=$PWD/bin:$PATH
}

@test "--gdb: gdb runs the program, and stops when a finding was printed" {
    fake_gdb
    run -1 "$tool" check --lab --gdb --html page -- ./program error 'a b'
    [[ $(<arguments) == $'/usr/bin/env\n./program\nerror\na b' ]]
    grep -x 'break coherdma_check_stop' commands
    [[ $(tail -n 1 commands) == run ]]
    run ! grep SIGSEGV commands
    grep '<h2 id=place2>' page
    run -3 "$tool" check --lab --gdb --protect -- bash -c 'STATUS=3 exec ./program'
    [[ $(head -n 1 arguments) == /*/bash ]]
    grep -x 'handle SIGSEGV nostop noprint pass' commands
}

@test "--gdb: what is preloaded is preloaded into the program only" {
    fake_gdb
    cp /bin/false plugins/libcoherdma-msan.so
    echo '# __msan_init' >>program
    run -0 "$tool" check --lab --gdb -- ./program
    grep -xF "set environment LD_PRELOAD $PWD/plugins/libcoherdma-msan.so" commands
    grep -x 'set environment LD_BIND_NOW 1' commands
}

@test "--gdb without gdb: status 77 and a suggestion" {
    run -77 --separate-stderr env PATH=/nowhere "$tool" check --lab --gdb -- ./program
    [[ $stderr == 'coherdma: there is no gdb in PATH; next: install it (Debian: apt install gdb)' && ! -e environment ]]
}

@test "a process without a summary is named" {
    KILLED=1 run -1 --separate-stderr "$tool" check --lab -- sh -c 'echo $$; exec ./program'
    [[ $stderr == *"process ${lines[0]} ended without a summary"* ]]
}

@test "options become the observer's settings" {
    touch known
    : >plugins/libcoherdma-late.so
    COHERDMA_OBSERVERS=/x/other.so COHERDMA_CHECK_EXIT=5 RDMAV_DRIVERS=mlx5 run -0 "$tool" check --lab \
        --suppress known --leaks --ownership --protect --late --no-stacks --no-fill --distinct-keys --as efa --limit 3 -- ./program
    grep -x "RDMAV_DRIVERS=$PWD/plugins/libcoherdma-observers:mlx5" environment
    grep -x "COHERDMA_OBSERVERS=$PWD/plugins/libcoherdma-check.so:$PWD/plugins/libcoherdma-late.so:/x/other.so" environment
    grep -x "COHERDMA_CHECK_SUPPRESS=$PWD/known" environment
    grep -x 'COHERDMA_CHECK_OPTIONS=leaks,ownership,protect,late,nostacks,nofill,distinctkeys,as=efa' environment
    grep -x 'COHERDMA_CHECK_LIMIT=3' environment
    run -1 grep COHERDMA_CHECK_EXIT environment
    run -0 "$tool" check --lab -- ./program
    grep -x 'COHERDMA_CHECK_LIMIT=1' environment
    run -1 grep -E 'COHERDMA_CHECK_(OPTIONS|SUPPRESS)|libcoherdma-late' environment
}

@test "reports are written to files" {
    run -1 --separate-stderr "$tool" check --lab --json --output report --html page --log log -- ./program error warning
    [[ -z $output ]]
    jq -e '.summary.errors == 1 and .summary.warnings == 1 and .command == ["./program", "error", "warning"]' report
    [[ $(jq -r .level log | xargs) == 'error warning' ]]
    grep '<h2 id=place2>2. 64 completions can come</h2>' page
    run -1 --separate-stderr "$tool" check --lab --output /nowhere/x -- touch started
    [[ $stderr == *'cannot write /nowhere/x: No such file or directory' && ! -e started ]]
}

@test "without the observer: status 77 and a suggestion" {
    rm plugins/libcoherdma-check.so
    run -77 --separate-stderr "$tool" check --lab -- true
    [[ $stderr == "coherdma: cannot read $PWD/plugins/libcoherdma-check.so: "*'next: install it'* ]]
    : >plugins/libcoherdma-check.so
    run -77 --separate-stderr "$tool" check --lab --late -- true
    [[ $stderr == "coherdma: cannot read $PWD/plugins/libcoherdma-late.so: "*'next: install it'* ]]
}

@test "wrong options" {
    run -2 --separate-stderr "$tool" check --lab --bogus -- true
    [[ $stderr == *'--bogus is not an option; write -- before COMMAND'* ]]
    run -2 --separate-stderr "$tool" check
    [[ $stderr == *'COMMAND is required'* ]]
    run -2 "$tool" check --limit 0 -- true
    run -2 "$tool" check --lab --here -- true
    run -2 --separate-stderr "$tool" check --suppress /nowhere -- true
    [[ $stderr == *'cannot read the file /nowhere'* ]]
}

@test "kinds are listed and explained, also without devices" {
    run -0 "$tool" check --list
    [[ $output == *$'\ncq-overflow                error   more completions'* ]]
    run -0 "$tool" check --explain cq-overflow
    [[ ${lines[0]} == 'cq-overflow (error): '* && $output == *'What to do: '* ]]
    run -2 --separate-stderr "$tool" check --explain overflow
    [[ $stderr == *"'overflow' is no kind of finding; next: coherdma check --list"* ]]
}

@test "coherdma-check(1) has each kind, with its level and summary" {
    command -v groff >/dev/null || skip 'no groff here'
    groff -man -Tascii -P -cbou -rLL=200n "$BATS_TEST_DIRNAME/../../../man/coherdma/coherdma-check.1" >page
    for kind in $("$tool" check --list | grep -oE '^[a-z-]+'); do
        level_and_summary=$("$tool" check --explain "$kind" | sed '/^$/,$d' | xargs)
        grep -ixF -A 1 "       ${level_and_summary%%:*}" page | tail -n 1 | xargs >summary
        expected=${level_and_summary#*: }
        [[ $(<summary) == "${expected^}." ]] || { echo "$kind: $(<summary)" && return 1; }
    done
}
