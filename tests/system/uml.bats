#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# softrdma run --in uml: the kernel as an ordinary process, seen by its caller.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/lib.bash"

program=$BATS_TEST_DIRNAME/../../scripts/softrdma
guest() { "$program" run --in uml -q "$@"; }

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    export TMPDIR=$BATS_TEST_TMPDIR
}

nothing_left() {
    [[ -z $(pgrep -f "[u]ml_dir=$TMPDIR") && -z $(find "$TMPDIR" -maxdepth 1 -name 'softrdma.*') ]]
}

ping_on_both='for driver in RXE SIW; do
    address=SOFTRDMA_${driver}_ADDRESS
    rping -s -a ${!address} -C 5 &
    until rdma resource show cm_id | grep -q "LISTEN.*:7174 "; do sleep 0.02; done
    rping -c -a ${!address} -C 5 -V -v && wait $! || exit 1
done'

@test "rping on rxe and on siw" {
    run -0 guest --driver both -- bash -c "$ping_on_both"
    [[ $(grep -c '^ping data' <<<"$output") == 10 ]]
    nothing_left
}

@test "an ordinary user without any capability needs no more" {
    kernel=$(dirname "$("$program" kernel path)")
    mkdir -p cache/uml
    cp -a "$kernel" cache/uml/
    chown -R nobody "$BATS_TEST_TMPDIR"
    chmod 755 "$BATS_RUN_TMPDIR" "$BATS_RUN_TMPDIR/test" "$BATS_TEST_TMPDIR"
    HOME=$PWD SOFTRDMA_CACHE=$PWD/cache run -0 setpriv --reuid=65534 --regid=65534 --clear-groups \
        --bounding-set=-all "$program" run --in uml -q --driver both -- bash -c "$ping_on_both"
    [[ $(grep -c '^ping data' <<<"$output") == 10 ]]
}

@test "statuses pass through" {
    run -42 guest -- sh -c 'exit 42'
    run -137 guest -- sh -c 'kill -KILL $$'
    run -127 guest -- no-such-program
}

@test "bytes pass unchanged: input, output and errors, each on its own" {
    head -c 300000 /dev/urandom >bytes
    guest -- sh -c 'tee /dev/stderr' <bytes >out 2>err
    cmp bytes out
    cmp bytes err
}

@test "what the guest writes is gone, but for --write" {
    mkdir kept
    guest --write kept -- sh -c 'touch gone kept/one'
    [[ -e kept/one && ! -e gone ]]
}

@test "a guest that powers off before the command ends is a failure" {
    run -1 guest -- sh -c 'echo "exit 0"; python3 -c "import ctypes; ctypes.CDLL(None).reboot(0x4321fedc)"; sleep 60'
    [[ $output == *"ended before the command did"* ]]
}

@test "an interrupt reaches the command, whose status counts" {
    "$program" run --in uml -q -- sh -c 'trap "echo trapped; exit 9" INT; echo begun; while :; do sleep 0.1; done' >out 3>&- &
    awaited 60 grep -q begun out
    kill -INT $!
    status=0
    wait $! || status=$?
    [[ $status == 9 ]]
    grep -q trapped out
    nothing_left
}

@test "killed at ten random moments, nothing is left" {
    for _ in {1..10}; do
        moment=$((RANDOM % 30))
        "$program" run --in uml -q --driver both --hosts 2 -- sleep 600 3>&- &
        sleep $((moment / 10)).$((moment % 10))
        kill -KILL $!
        wait $! || true
        awaited 10 nothing_left
    done
}

@test "no kernel of that version: status 77, and what to type" {
    run -77 guest --kernel 4.20 -- true
    [[ $output == *"softrdma kernel build 4.20"* ]]
}

@test "--in uml is not taken for here, even by a kernel that has the drivers" {
    run -77 guest -- env SOFTRDMA_CACHE=/nowhere "$program" run --in uml -- true
    [[ $output == *"no user-mode kernel is built"* ]]
}
