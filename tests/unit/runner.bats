#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# scripts/test and ci/lib.sh, tried with stages that pass, fail, skip, crash and hang.

setup() {
    cd "$BATS_TEST_DIRNAME/../.." || return
    export COHERDMA_STAGES=$BATS_TEST_TMPDIR/stages BUILD=$BATS_TEST_TMPDIR/build
    mkdir "$COHERDMA_STAGES"
}

# stage NUMBER-NAME: its body is stdin
stage() {
    { printf '#!/usr/bin/env bash\n# about: for a test\nsource ci/lib.sh\n' && cat; } \
        >"$COHERDMA_STAGES/$1"
    chmod +x "$COHERDMA_STAGES/$1"
}

last_line_is() {
    [[ ${lines[-1]} == "$1" ]] || { printf 'last line: %s\n' "${lines[-1]}" && return 1; }
}
# has REGEX: a line of the output matches
has() { grep -qE "$1" <<<"$output" || { printf 'no %s in:\n%s\n' "$1" "$output" && return 1; }; }
gone() { [[ ! -e /proc/$1 ]] || grep -q '^State:.Z' "/proc/$1/status"; }
has_not() { if has "$1" >/dev/null; then printf '%s in:\n%s\n' "$1" "$output" && return 1; fi; }

@test "a stage that passes" {
    stage 10-good <<<'pass one; pass two'
    run scripts/test
    [ "$status" -eq 0 ]
    has '^good +2 +0 +0 +[0-9]+$'
    last_line_is '2 passed, 0 failed, 0 skipped'
}

@test "a failure is named, with why and the log" {
    stage 10-good <<<'pass one'
    stage 20-bad <<<'pass two; fail three "the reason"'
    run scripts/test
    [ "$status" -eq 1 ]
    has '^bad +1 +1 +0 '
    has '^FAILED bad: three: the reason$'
    has "^ +$BUILD/logs/bad.log$"
    last_line_is '2 passed, 1 failed, 0 skipped'
}

@test "a skipped test has its reason, and is no failure" {
    stage 10-some <<<'pass one; skip two "not here"'
    run scripts/test
    [ "$status" -eq 0 ]
    has '^skipped some: two: not here$'
    last_line_is '1 passed, 0 failed, 1 skipped'
}

@test "a stage that cannot run here is skipped, with its last line as the reason" {
    stage 10-far <<<'echo first; echo no such machine; exit 77'
    run scripts/test
    [ "$status" -eq 0 ]
    has '^skipped far: far: no such machine$'
    last_line_is '0 passed, 0 failed, 1 skipped'
}

@test "a stage without results fails" {
    stage 10-silent <<<'echo all is well'
    run scripts/test
    [ "$status" -eq 1 ]
    has '^FAILED silent: silent: no result at all$'
    last_line_is '0 passed, 1 failed, 0 skipped'
}

@test "a stage that crashes fails, whatever passed before" {
    stage 10-crash <<<'pass one; kill -SEGV $$'
    run scripts/test
    [ "$status" -eq 1 ]
    has '^FAILED crash: crash: exit status 139$'
    last_line_is '1 passed, 1 failed, 0 skipped'
}

@test "a failed stage is not counted twice" {
    stage 10-bad <<<'fail one "the reason"; exit 1'
    run scripts/test
    [ "$status" -eq 1 ]
    last_line_is '0 passed, 1 failed, 0 skipped'
}

@test "a malformed result is a failure" {
    stage 10-odd <<'END'
pass one
echo "ok two" >>"$RESULTS"
END
    run scripts/test
    [ "$status" -eq 1 ]
    last_line_is '1 passed, 1 failed, 0 skipped'
    [[ $output == *'FAILED odd: odd: wrote a malformed result: ok\ two'* ]]
}

@test "later stages run after a failure, in the order of their numbers" {
    stage 20-second <<<'pass one'
    stage 10-first <<<'exit 3'
    run scripts/test
    [ "$status" -eq 1 ]
    [ "$(grep -oE '^(first|second) …' <<<"$output" | xargs)" = 'first … second …' ]
}

@test "only the stages that are named" {
    stage 10-good <<<'pass one'
    stage 20-bad <<<'fail two why'
    run scripts/test good
    [ "$status" -eq 0 ]
    last_line_is '1 passed, 0 failed, 0 skipped'
}

@test "an unknown stage is misuse, and nothing runs" {
    stage 10-good <<<'pass one'
    run scripts/test good wrong
    [ "$status" -eq 2 ]
    has 'no stage wrong'
    has '^good +for a test$'
    [ ! -e "$BUILD/logs/good.log" ]
}

@test "--list and --help" {
    stage 10-good <<<'pass one'
    run scripts/test --list
    [ "$status" -eq 0 ] && [ "$output" = 'good       for a test' ]
    run scripts/test --help
    [ "$status" -eq 0 ] && has '^usage:'
}

@test "a slow stage is left out, and that is said, unless it is named or all are wanted" {
    stage 10-good <<<'pass one'
    stage 20-long <<<'# slow: it sleeps
pass two'
    run scripts/test
    last_line_is '1 passed, 0 failed, 0 skipped'
    [[ $output == *'left for scripts/test --all: long'* ]]
    run scripts/test --all
    last_line_is '2 passed, 0 failed, 0 skipped'
    [[ $output != *'left for'* ]]
    run scripts/test long
    last_line_is '1 passed, 0 failed, 0 skipped'
    run scripts/test --list
    [[ ${lines[1]} == 'long       for a test (slow)' ]]
}

# Each of the two waits for the other, in vain if they do not run side by side.
meet() {
    cat <<END
touch $BATS_TEST_TMPDIR/\$1
for try in {1..20}; do
    [[ -e $BATS_TEST_TMPDIR/\$2 ]] && pass met && exit
    sleep 0.1
done
skip meeting "nobody came"
END
}

@test "stages run side by side: as many as -j says, or two where there are processors" {
    fake nproc <<<'echo 4'
    stage 10-one < <(echo 'set one two' && meet)
    stage 20-two < <(echo 'set two one' && meet)
    run scripts/test
    last_line_is '2 passed, 0 failed, 0 skipped'
    has '^one +1 +0 +0 '
    rm "$BATS_TEST_TMPDIR"/{one,two}
    run scripts/test -j 1
    last_line_is '1 passed, 0 failed, 1 skipped'
    rm "$BATS_TEST_TMPDIR"/{one,two}
    fake nproc <<<'echo 1'
    run scripts/test
    last_line_is '1 passed, 0 failed, 1 skipped'
    for wrong in 0 many ''; do
        run scripts/test -j $wrong
        [ "$status" -eq 2 ]
        has 'how many stages'
    done
}

@test "a stage that is to be alone is" {
    fake nproc <<<'echo 4'
    for each in 10-before 20-alone 30-after; do
        stage $each <<END
$([[ $each != *alone ]] || echo '# alone: it measures')
touch $BATS_TEST_TMPDIR/$each.runs
for try in {1..5}; do
    ls $BATS_TEST_TMPDIR | grep -c 'runs$'
    sleep 0.1
done | sort -n | tail -n 1 >$BATS_TEST_TMPDIR/$each.most
rm $BATS_TEST_TMPDIR/$each.runs
pass one
END
    done
    run scripts/test
    last_line_is '3 passed, 0 failed, 0 skipped'
    [[ $(cat "$BATS_TEST_TMPDIR/20-alone.most") == 1 ]]
    sed -i '/^# alone/d' "$COHERDMA_STAGES/20-alone"
    run scripts/test -j 3
    [[ $(cat "$BATS_TEST_TMPDIR/20-alone.most") == 3 ]]
}

@test "the end of a stage is nothing to the one beside it" {
    fake nproc <<<'echo 4'
    stage 10-short <<<'pass one'
    stage 20-long <<<'sleep 1; pass two'
    run scripts/test
    last_line_is '2 passed, 0 failed, 0 skipped'
}

@test "--also: those of the default run, and a slow one" {
    stage 10-good <<<'pass one'
    stage 20-long <<<'# slow: it sleeps
pass two'
    stage 30-longer <<<'# slow: it sleeps
pass three'
    run scripts/test --also long
    last_line_is '2 passed, 0 failed, 0 skipped'
    has 'left for scripts/test --all: longer$'
    run scripts/test --also
    [ "$status" -eq 2 ]
}

@test "--within: slow ones last, and none begins after that" {
    stage 10-long <<<'# slow: it sleeps
pass one'
    stage 20-good <<<'pass two'
    run scripts/test -j 1 --within 1 --all
    [ "$status" -eq 0 ]
    last_line_is '2 passed, 0 failed, 0 skipped'
    [[ $(grep -n '^good …' <<<"$output") == 1:* ]]
    SECONDS=60 run scripts/test --within 1 --all
    [ "$status" -eq 0 ]
    has '^skipped long: long: not begun: more than 1 min had passed; scripts/test long$'
    last_line_is '0 passed, 0 failed, 2 skipped'
    run scripts/test --within
    [ "$status" -eq 2 ]
    run scripts/test --within soon
    [ "$status" -eq 2 ]
}

@test "--until: what is still at work is ended, and failed" {
    stage 10-stuck <<<'pass one; echo nearly there; sleep 4711'
    stage 20-good <<<'pass two'
    SECONDS=52 run scripts/test -j 2 --until 1 # its beginning takes a while, on a busy machine
    [ "$status" -eq 1 ]
    has '^FAILED stuck: stuck: still at work after 1 min$'
    has '^ +nearly there$'
    has ' sleep 4711$'
    last_line_is '2 passed, 1 failed, 0 skipped'
    [[ -z $(pgrep -f '^sleep 4711$') ]]
    SECONDS=60 run scripts/test --until 1
    [ "$status" -eq 0 ]
    last_line_is '0 passed, 0 failed, 2 skipped'
    run scripts/test --until never
    [ "$status" -eq 2 ]
}

@test "no stages at all is misuse" {
    run scripts/test
    [ "$status" -eq 2 ]
}

@test "check: the status and the last line of a command" {
    stage 10-checks <<'END'
two_steps() { false; echo not reached; }
says_why() { echo too small; return 1; }
check fine true
check wrong says_why
check early two_steps
check unseen two_steps || true
END
    run scripts/test
    has '^FAILED checks: wrong: too small$'
    has '^FAILED checks: early: exit status 1$'
    has '^FAILED checks: unseen: check was called in a condition$'
    last_line_is '1 passed, 3 failed, 0 skipped'
}

@test "TAP: passed, failed with the reason, skipped" {
    stage 10-tap <<'END'
printf '%s\n' 1..3 'ok 1 one' 'not ok 2 two' '# (in file x)' "#   \`false' failed" 'ok 3 three # skip no cat' | tap
END
    run scripts/test
    has "^FAILED tap: two: \(in file x\) \`false' failed$"
    has '^skipped tap: three: no cat$'
    last_line_is '1 passed, 1 failed, 1 skipped'
}

@test "TAP: what a failing test printed is told, and of no other test" {
    stage 10-tap <<'END'
said() { printf '%s\n' 'ok 1 one' '# a little' 'not ok 2 two' "# \`false' failed" $(printf '#%s ' {1..20}) 'ok 3 two' '# nothing'; }
{ printf '1..3\n'; said; } | named of tap
END
    run scripts/test
    has "^FAILED tap: of: two: "
    has '^ +#20$'
    has '^ +#9$'
    has_not '#8$|a little|nothing'
}

@test "TAP: a program of cmocka says of a skipped test that it is not ok" {
    stage 10-tap <<'END'
printf '%s\n' 1..2 '# skipped: no cat' 'not ok 1 # SKIP one' '# ok - tests' 'ok 2 - two' | tap
END
    run scripts/test
    [[ $status == 0 ]]
    has '^skipped tap: one: no cat$'
    last_line_is '1 passed, 0 failed, 1 skipped'
}

@test "TAP that is cut short fails, and so does TAP without a plan" {
    stage 10-cut <<<"printf '%s\n' 1..3 'ok 1 one' 'ok 2 two' | tap"
    stage 20-noplan <<<"printf '%s\n' 'ok 1 one' | tap"
    run scripts/test
    [ "$status" -eq 1 ]
    has '^FAILED cut: TAP plan: 2 results, 3 planned$'
    has '^FAILED noplan: TAP plan: 1 results, none planned$'
    last_line_is '3 passed, 2 failed, 0 skipped'
}

@test "bats that breaks off fails" {
    # Written as TEST because bats would take these for tests of this file.
    sed 's/^TEST/@test/' >"$BATS_TEST_TMPDIR/x.bats" <<'END'
TEST "fine" { true; }
TEST "ends" { kill -9 $PPID; }
END
    stage 10-bats <<<"run_bats $BATS_TEST_TMPDIR/x.bats"
    run scripts/test
    [ "$status" -eq 1 ]
}

@test "a stage that cannot be executed fails" {
    stage 10-plain <<<'pass one'
    chmod -x "$COHERDMA_STAGES/10-plain"
    run scripts/test
    [ "$status" -eq 1 ]
    has '^FAILED plain: plain: exit status 126$'
}

@test "what a stage leaves running is ended" {
    stage 10-daemon <<<"(setsid sleep 1000 & echo \$! >$BATS_TEST_TMPDIR/pid); pass one"
    run scripts/test
    [ "$status" -eq 0 ]
    gone "$(cat "$BATS_TEST_TMPDIR/pid")"
}

@test "an interrupt ends all that the stage started, and the table is still printed" {
    stage 10-good <<<'pass one'
    stage 20-hang <<END
pass two
trap '' TERM
sleep 60 & echo \$! >>$BATS_TEST_TMPDIR/pids
(setsid sleep 60 & echo \$! >>$BATS_TEST_TMPDIR/pids)
echo \$\$ >>$BATS_TEST_TMPDIR/pids
touch $BATS_TEST_TMPDIR/started
wait
END
    # What a shell starts in the background ignores the signal, unless told otherwise.
    env --default-signal=INT scripts/test >"$BATS_TEST_TMPDIR/out" 3>&- &
    for _ in {1..100}; do
        [[ -e $BATS_TEST_TMPDIR/started ]] && break
        sleep 0.1
    done
    kill -INT $!
    status=0
    wait $! || status=$?
    [ "$status" -eq 130 ]
    [ "$(wc -l <"$BATS_TEST_TMPDIR/pids")" -eq 3 ]
    while read -r pid; do
        gone "$pid"
    done <"$BATS_TEST_TMPDIR/pids"
    mapfile -t lines <"$BATS_TEST_TMPDIR/out"
    last_line_is '2 passed, 1 failed, 0 skipped'
}

# fake COMMAND: its body is stdin; found before the real one
fake() {
    mkdir -p "$BATS_TEST_TMPDIR/bin"
    { echo '#!/bin/sh' && cat; } >"$BATS_TEST_TMPDIR/bin/$1"
    chmod +x "$BATS_TEST_TMPDIR/bin/$1"
    PATH=$BATS_TEST_TMPDIR/bin:$PATH
}

@test "setup: nothing missing, nothing done" {
    fake apt-get <<<'exit 99'
    run ci/setup
    [ "$status" -eq 0 ] && [ -z "$output" ]
}

@test "setup: without root it prints the command to type, and the tests do not begin" {
    stage 10-good <<<'pass one'
    fake dpkg-query <<<'echo "ii  cmake"'
    fake id <<<'echo 1000'
    fake apt-get <<<'exit 99'
    run scripts/test
    [ "$status" -eq 77 ]
    has '^  sudo apt-get install -y --no-install-recommends .* bats '
    has_not ' cmake'
    last_line_is '0 passed, 0 failed, 1 skipped'
}

@test "setup: root installs what is missing, with fresh lists only when needed" {
    fake dpkg-query <<<'echo "un  bats"'
    fake id <<<'echo 0'
    fake apt-get <<'END'
echo "apt $1"
END
    run ci/setup
    [ "$status" -eq 0 ]
    has '^apt install' && has_not update
    fake apt-get <<'END'
echo "apt $*"
case "$*" in *--print-uris*) exit 100 ;; esac
END
    run ci/setup
    [ "$status" -eq 0 ]
    has 'update$' && has '^apt install'
}

@test "-k runs the tests of that name, once, and no other" {
    for number in 1 2; do
        printf '@test "the %s apple" { true; }\n@test "a pear" { false; }\n' "$number" >"$BATS_TEST_TMPDIR/$number.bats"
    done
    stage 10-one <<<"check preparation true; run_bats $BATS_TEST_TMPDIR/1.bats"
    stage 20-two <<<"run_bats $BATS_TEST_TMPDIR/2.bats"
    stage 30-again <<<"run_bats $BATS_TEST_TMPDIR/1.bats"
    stage 40-other <<<'fail other "it ran"'
    run scripts/test -k 'the . apple'
    [ "$status" -eq 0 ]
    last_line_is '2 passed, 0 failed, 0 skipped'
    run scripts/test -k 'pear' two
    [ "$status" -eq 1 ]
    last_line_is '0 passed, 1 failed, 0 skipped'
    run scripts/test -k 'plum'
    [ "$status" -eq 2 ]
    run scripts/test -k
    [ "$status" -eq 2 ]
}
