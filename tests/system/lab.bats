#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# softrdma run, seen by its caller: status, streams, signals, errors, and what is left behind.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/lib.bash"

program=$BATS_TEST_DIRNAME/../../scripts/softrdma
softrdma() { "$program" "$@"; }
guest() { softrdma run --in qemu -q "$@"; }

# begin COMMAND...: softrdma itself, not a shell around it, as process $pid, its output in out and err.
begin() {
    "$program" "$@" >out 2>err 3>&- &
    pid=$!
}
begin_guest() { # the command says "begun" when it has
    begin run --in qemu -q -- sh -c "$1"
    awaited 120 begun_or_over
    grep -q begun out || ends_with 'that of a command that began'
}
begun_or_over() { grep -q begun out || ! kill -0 "$pid" 2>/dev/null; }
ends_with() { # STATUS
    local status=0
    wait "$pid" || status=$?
    [[ $status == "$1" ]] || {
        echo "status $status instead of $1"
        cat out err
        return 1
    }
}

# A cache of the test's own, with the package lists of the real one to save time.
own_cache() {
    local real=${SOFTRDMA_CACHE:-$HOME/.cache/softrdma}
    export SOFTRDMA_CACHE=$BATS_TEST_TMPDIR/cache
    mkdir cache
    [[ ! -d $real/apt ]] || cp -a "$real/apt" cache/
    [[ $* != kernel ]] || { mkdir cache/kernels && cp -a "$real/kernels/$(dpkg --print-architecture)" cache/kernels/; }
}

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    export TMPDIR=$BATS_TEST_TMPDIR # softrdma's own folders go here: easy to see what is left
}

left_over() { # what a softrdma of this test left: processes, folders
    pgrep -af "[q]emu.*$TMPDIR" || true
    local pid
    for pid in $(pgrep -f "[s]oftrdma (run|kernel)"); do
        if grep -qsxz "TMPDIR=$TMPDIR" "/proc/$pid/environ"; then ps -o pid=,args= -p "$pid"; fi
    done
    find "$TMPDIR" -maxdepth 1 -name 'softrdma.*'
}
nothing_left() { [[ -z $(left_over) ]]; }
outside() { # interfaces, namespaces and mounts of this machine
    ip -o link | grep -o '^[0-9]*: [^:]*'
    ip netns
    lsns -t net -n -o NS
    cut -d' ' -f1-3 /proc/self/mounts
}

@test "statuses pass through, also from where cmake installed it" {
    program=$BUILD/stage/usr/bin/softrdma
    run -42 guest -- sh -c 'exit 42'
    run -137 guest -- sh -c 'kill -KILL $$'
    run -127 guest -- no-such-program
    [[ $output == *"no-such-program"* ]]
}

@test "bytes pass unchanged: input, output and errors, each on its own" {
    head -c 3000000 /dev/urandom >bytes
    guest -- sh -c 'tee /dev/stderr' <bytes >out 2>err
    cmp bytes out
    cmp bytes err
}

@test "the caller's files and folder are seen; what the guest writes is gone, but for --write" {
    mkdir kept 'with blank'
    echo seen >file
    guest --write kept --write 'with blank' -- \
        sh -c 'cat file; touch gone kept/one "with blank/two"' >out
    [[ $(cat out) == seen && -e kept/one && -e 'with blank/two' && ! -e gone ]]
}

@test "a guest that panics is a failure, whatever was printed before" {
    run -1 guest -- sh -c 'echo exit 0; echo "exit 0" >/dev/console; sync; echo c >/proc/sysrq-trigger; sleep 60'
    [[ $output == *"Kernel panic"* ]]
}

@test "a guest that powers off before the command ends is a failure" {
    run -1 guest -- sh -c 'echo o >/proc/sysrq-trigger; sleep 60'
    [[ $output == *"ended before the command did"* ]]
}

@test "a guest that hangs is a failure" {
    export SOFTRDMA_SILENCE_SECONDS=6
    begin_guest 'echo begun; sleep 600'
    pkill -STOP -f "qemu.*$TMPDIR"
    ends_with 1
    grep -q 'the guest hangs' err
    nothing_left
}

@test "a background process does not keep the guest, nor swallow output" {
    run -0 guest -- sh -c 'setsid sleep 600 & echo printed'
    [[ $output == printed ]]
}

@test "an interrupt reaches the command, whose status counts" {
    begin_guest 'trap "echo trapped; exit 9" INT; echo begun; while :; do sleep 0.1; done'
    kill -INT "$pid"
    ends_with 9
    grep -q trapped out
    nothing_left
}

@test "a command that ignores the signal does not keep the guest" {
    begin_guest 'trap "" TERM; echo begun; while :; do sleep 0.1; done'
    kill -TERM "$pid"
    ends_with 143
    nothing_left
}

@test "on a terminal the command has a terminal, of the same size" {
    run -4 script -qec "stty rows 33 cols 99; '$program' run --in qemu -- sh -c 'stty size; tty; exit 4'" /dev/null </dev/null
    [[ $output == *"33 99"* && $output == */dev/pts/* ]]
}

@test "killed at ten random moments, nothing is left" {
    before=$(outside)
    for _ in {1..10}; do
        moment=$((RANDOM % 90))
        begin run --in qemu -q --driver both --hosts 2 -- sleep 600
        sleep $((moment / 10)).$((moment % 10))
        kill -KILL "$pid"
        ends_with 137
        awaited 10 nothing_left || {
            echo "after $moment tenths of a second: $(left_over)"
            return 1
        }
    done
    [[ $(outside) == "$before" ]]
}

@test "killed while it fetches a kernel and builds siw, nothing half-made is left" {
    own_cache
    for moment in 1 4 8 13; do
        begin kernel fetch --driver siw
        sleep $moment
        kill -KILL "$pid" 2>/dev/null || true
        wait "$pid" || true
        awaited 10 nothing_left
        [[ -z $(find "$SOFTRDMA_CACHE" -maxdepth 3 \( -name '*.part' -o -path '*/work/*' \)) ]]
    done
    softrdma kernel fetch --driver siw
    run -0 softrdma kernel list
    [[ $output == *yes* ]]
}

@test "a damaged kernel is noticed and made again" {
    own_cache kernel
    kernel=$(softrdma kernel list --json | jq -r '.kernels[0].path')
    dd if=/dev/zero of="$kernel/vmlinuz" bs=1 seek=4000000 count=9 conv=notrunc status=none
    run -0 softrdma kernel fetch
    [[ $output == *"vmlinuz has other contents"* ]]
    find "$kernel/lib" -name 'rdma_rxe.ko*' -delete
    run -0 softrdma kernel fetch
    [[ $output == *"rdma_rxe.ko is missing"* ]]
    find "$kernel/lib" -name 'rdma_rxe.ko*' | grep -q .
}

@test "no way to the mirror: status 77, a line that says so, nothing half-made" {
    export SOFTRDMA_CACHE=$BATS_TEST_TMPDIR/cache SOFTRDMA_MIRROR=http://127.0.0.1:9/debian
    run -77 guest -- true
    [[ $output == *"no network"* ]]
    [[ -z $(find "$SOFTRDMA_CACHE" -name vmlinuz -o -name '*.part') ]]
}

@test "no room on the disk: status 77 and a line that says where" {
    mkdir small
    run -77 unshare --mount sh -c 'mount -t tmpfs -o size=20m small small && SOFTRDMA_CACHE=$PWD/small exec "$0" run --in qemu -- true' "$program"
    [[ $output == *"no room for"* ]]
}

@test "an ordinary user needs no root" {
    own_cache kernel
    chown -R nobody cache "$BATS_TEST_TMPDIR"
    chmod 755 "$BATS_RUN_TMPDIR" "$BATS_RUN_TMPDIR/test" "$BATS_TEST_TMPDIR"
    HOME=$PWD run -0 setpriv --reuid=65534 --regid=65534 --clear-groups \
        "$program" run -q -- ibv_devinfo
    [[ $output == *PORT_ACTIVE* ]]
}

@test "misuse is status 2 and one line that says what to do" {
    while read -r words; do
        # shellcheck disable=SC2086
        run -2 softrdma $words
        [[ ${#lines[@]} == 1 && $output == softrdma:* ]] || {
            echo "softrdma $words: $output"
            return 1
        }
    done <<'END'
nonsense
run
run --driver roce -- true
run --hosts 3 -- true
run --in qemu --kernel newest -- true
run --in qemu -q --write /no/such/folder -- true
up --driver roce
up --name 9/x
up --netdev no-such-if
down no-such-device
kernel
kernel remove
kernel remove 0.1
END
}

@test "what this machine cannot do is status 77" {
    [[ ! -d /sys/module/rdma_rxe ]] || skip 'this kernel has rxe'
    run -77 softrdma up
    run -77 softrdma run --in here -- true
    [[ $output == *"--in qemu"* ]]
}

@test "--help and --version are for stdout" {
    for words in --help "run --help" "up --help" "kernel --help" --version; do
        # shellcheck disable=SC2086
        run -0 --separate-stderr softrdma $words
        # shellcheck disable=SC2154
        [[ -n $output && -z $stderr ]]
    done
}
