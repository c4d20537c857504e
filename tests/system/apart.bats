#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Hosts that have a kernel each, as the caller of softrdma run sees them: what `on` carries, and the wire
# between them.

bats_require_minimum_version 1.8.0
source "$BATS_TEST_DIRNAME/lib.bash"
source "$BATS_TEST_DIRNAME/caller.bash"

hosts() { softrdma run --in uml -q --hosts "$@"; }
carry=$BUILD/release/tests/carry

@test "each of three hosts reaches each other, by rxe and by siw" {
    # shellcheck disable=SC2016 # the arguments are those of sh
    run -0 hosts 3 --driver both -- sh -c '
        for to in 1 2 3; do
            for from in 1 2 3; do
                [ $to != $from ] || continue
                for driver in RXE SIW; do
                    eval "address=\$SOFTRDMA_${driver}_HOST$to"
                    on $to rping -s -a $address -C 3 -V >/dev/null 2>&1 &
                    until on $to rdma resource show cm_id | grep -q LISTEN; do :; done
                    on $from rping -c -a $address -C 3 -V -v 2>/dev/null
                    wait
                done
            done
        done'
    [[ $(grep -c '^ping data' <<<"$output") == 36 ]]
}

@test "a host has its own device, processes and files; a folder of --write is everybody's" {
    mkdir kept
    # shellcheck disable=SC2016
    run -0 hosts 2 --write kept -- sh -c '
        for host in 1 2; do on $host ls /sys/class/infiniband; done
        sleep 4711 & on 2 pgrep -f "[s]leep 4711"
        touch /tmp/here; on 2 test ! -e /tmp/here || echo shared
        on 2 sh -c "echo of 2 >kept/file"; cat kept/file
        on 2 printenv SOFTRDMA_HOST SOFTRDMA_DEVICE HOST1; on 2 uname -n
        kill $!'
    [[ $output == $'rxe1\nrxe2\nof 2\n2\nrxe2\n198.19.1.1\nsoftrdma-2' ]]
}

@test "on: bytes pass unchanged, input, output and errors, each on its own" {
    head -c 3000000 /dev/urandom >bytes
    hosts 2 -- on 2 sh -c 'tee /dev/stderr' <bytes >out 2>err
    cmp bytes out
    cmp bytes err
}

@test "on: environment, folder, status; words as they are" {
    mkdir 'with blank'
    cd 'with blank'
    export SAID='a "b" $c'
    run -42 hosts 2 -- on 2 sh -c 'pwd; printf "%s|" "$SAID" "$@"; exit 42' - '* 1' ''
    [[ $output == "$PWD"$'\na "b" $c|* 1||' ]]
}

@test "on: misuse, and programs that are not there" {
    # shellcheck disable=SC2016
    run -0 hosts 2 -- sh -c 'on 3 true; echo $?; on two true; echo $?; on 2; echo $?; on; echo $?
        on 2 no-such-program; echo $?; on 1 no-such-program; echo $?; on 2 sh -c "kill -TERM \$\$"; echo $?'
    [[ $(grep -x '[0-9]*' <<<"$output" | paste -sd ' ') == '2 2 2 2 127 127 143' ]]
    [[ $output == *"no host '3' here"*"which command?"*"cannot run no-such-program"* ]]
}

@test "on: a signal reaches the command; one that is killed kills it; what it left in the background stays" {
    # shellcheck disable=SC2016
    run -0 --separate-stderr hosts 2 -- sh -c '
        on 2 sh -c "trap \"echo trapped; exit 9\" TERM; echo begun >/tmp/begun; while :; do sleep 0.1; done" &
        until on 2 test -e /tmp/begun; do :; done; kill -TERM $!; wait $!; echo $?
        on 2 sleep 4711 & until on 2 pgrep -f "[s]leep 4711"; do :; done; kill -KILL $!
        while on 2 pgrep -f "[s]leep 4711" >/dev/null; do :; done
        on 2 sh -c "sleep 4712 & echo left"; on 2 pgrep -f "[s]leep 4712" >/dev/null && echo stays'
    [[ $output == *$'trapped\n9\n'*$'left\nstays' ]]
}

@test "on: who does not read is waited for, and does not keep the others" {
    # shellcheck disable=SC2016
    run -0 hosts 2 -- sh -c '
        on 2 yes | { sleep 3; head -n 1; } &
        on 2 head -c 5000000 /dev/zero | wc -c; wait'
    [[ $(sort <<<"$output") == $'5000000\ny' ]]
}

@test "on: a terminal, of the same size" {
    # shellcheck disable=SC2016
    run -4 script -qec "stty rows 33 cols 99; '$program' run --in uml --hosts 2 -- on 2 sh -c 'stty size; tty; exit 4'" /dev/null </dev/null
    [[ $output == *"33 99"* && $output == */dev/pts/* ]]
}

@test "a wire that loses packets: every byte arrives, by rxe and by siw" {
    for driver in rxe siw; do
        # shellcheck disable=SC2016
        run -0 hosts 2 --driver $driver --loss 1% -- sh -c '
            on 2 "$0" server $HOST2 --timeout 60 & "$0" client $HOST2 --timeout 60 && wait $! &&
            for host in 1 2; do on $host sh -c "tc -s -j qdisc show dev \$SOFTRDMA_NETDEV"; done | jq ".[0].drops"' "$carry"
        [[ $output == *'bytes verified'* ]]
        (($(grep -x '[0-9]*' <<<"$output" | paste -sd +)))
    done
}

@test "a slow wire takes its time" {
    # shellcheck disable=SC2016
    run -0 hosts 2 --delay 100ms -- sh -c '
        on 2 rping -s -a $HOST2 -C 2 >/dev/null 2>&1 & until on 2 rdma resource show cm_id | grep -q LISTEN; do :; done
        begun=$(date +%s%N); rping -c -a $HOST2 -C 2 -v >&2; echo $((($(date +%s%N) - begun) / 1000000))' 2>/dev/null
    (($(tail -n 1 <<<"$output") >= 600)) # milliseconds: to connect and two pings are three round trips at least
}

@test "a host whose kernel dies is a failure that names it" {
    begin run --in uml -q --hosts 2 -- sh -c 'on 2 touch begun; echo begun; sleep 600'
    awaited 60 grep -q begun out
    pkill -KILL -f "uml_dir=$TMPDIR/softrdma.*/2/uml"
    ends_with 1
    grep "host 2's guest ended before the command did" err
    nothing_left
}

@test "killed at ten random moments, three hosts leave nothing" {
    for _ in {1..10}; do
        moment=$((RANDOM % 35))
        begin run --in uml -q --driver both --hosts 3 -- on 3 sleep 600
        sleep $((moment / 10)).$((moment % 10))
        kill -KILL "$pid"
        ends_with 137
        awaited 10 nothing_left || {
            echo "after $moment tenths of a second: $(left_over)"
            return 1
        }
    done
}

