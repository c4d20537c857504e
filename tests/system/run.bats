#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# softrdma run in a guest, seen by its caller: status, streams, signals, and what is left behind.
# $IN is the kind of guest: uml or qemu. Tests with the tag qemu are those that both should have.

bats_require_minimum_version 1.8.0
source "$BATS_TEST_DIRNAME/lib.bash"
source "$BATS_TEST_DIRNAME/caller.bash"

guest() { softrdma run --in "$IN" -q "$@"; }

begin_guest() { # the command says "begun" when it has
    begin run --in "$IN" -q -- sh -c "$1"
    awaited 120 begun_or_over
    grep -q begun out || ends_with 'that of a command that began'
}
begun_or_over() { grep -q begun out || ! kill -0 "$pid" 2>/dev/null; }

# go_apart: softrdma runs where no other test makes interfaces, mounts or named network namespaces,
# which are mounts, too.
go_apart() {
    unshare --net --mount sleep 600 3>&- &
    apart=$!
    awaited 10 is_apart
    printf '#!/bin/sh\nexec nsenter --net --mount -t %s --wd="$PWD" "%s" "$@"\n' "$apart" "$program" >apart
    chmod +x apart
    program=$PWD/apart
}
is_apart() { ! [[ /proc/$apart/ns/mnt -ef /proc/self/ns/mnt || /proc/$apart/ns/net -ef /proc/self/ns/net ]]; }
seen_apart() {
    {
        nsenter --net -t "$apart" ip -o link | grep -o '^[0-9]*: [^:]*'
        cut -d' ' -f1-3 "/proc/$apart/mounts"
    } | sort
}

@test "statuses pass through, also from where cmake installed it" {
    program=$BUILD/stage/usr/bin/softrdma
    run -42 guest -- sh -c 'exit 42'
    run -137 guest -- sh -c 'kill -KILL $$'
    run -127 guest -- no-such-program
    [[ $output == *"no-such-program"* ]]
}

@test "a kernel that a package brought is run where there is no cache" {
    [[ $IN == uml ]] || skip 'packages bring none for QEMU'
    mkdir -p usr/bin usr/share/softrdma usr/lib/softrdma/uml
    cp "$program" usr/bin
    cp -r "$BATS_TEST_DIRNAME/../../scripts/lab" usr/share/softrdma
    cp -r "$(dirname "$(softrdma kernel path)")" usr/lib/softrdma/uml/its-name
    program=usr/bin/softrdma
    export SOFTRDMA_CACHE=$PWD/none
    run -0 softrdma kernel path
    [[ $output == "$PWD/usr/lib/softrdma/uml/its-name/linux" ]]
    run -5 guest -- sh -c '[ -d /sys/class/infiniband/rxe0 ] && exit 5'
    [[ ! -e $SOFTRDMA_CACHE ]]
}

# bats test_tags=qemu
@test "bytes pass unchanged: input, output and errors, each on its own" {
    head -c 3000000 /dev/urandom >bytes
    guest -- sh -c 'tee /dev/stderr' <bytes >out 2>err
    cmp bytes out
    cmp bytes err
}

# bats test_tags=qemu
@test "the caller's files and folder are seen; what the guest writes is gone, but for --write" {
    mkdir kept 'with blank'
    echo seen >file
    guest --write kept --write 'with blank' -- \
        sh -c 'cat file; touch gone kept/one "with blank/two"' >out
    [[ $(cat out) == seen && -e kept/one && -e 'with blank/two' && ! -e gone ]]
}

# bats test_tags=qemu
@test "a guest that panics is a failure, whatever was printed before" {
    begin_guest 'echo begun; echo "exit 0"; echo "exit 0" >/dev/console; sync
        [ ! -e /proc/sysrq-trigger ] || echo c >/proc/sysrq-trigger; sleep 60'
    # User mode's kernel has no sysrq here: give it a fault. If that hits a thread that only helps,
    # the kernel dies without a word.
    if [[ $IN == uml ]]; then pkill -SEGV -o -f "uml_dir=$TMPDIR"; fi
    ends_with 1
    grep 'ended before the command did' err || { cat err && false; }
    [[ $IN == uml ]] || grep -q 'Kernel panic' err
}

@test "a guest that powers off before the command ends is a failure" {
    run -1 guest -- sh -c 'echo "exit 0"; python3 -c "import ctypes; ctypes.CDLL(None).reboot(0x4321fedc)"; sleep 60'
    [[ $output == *"ended before the command did"* ]]
}

@test "no signal of the command's ends the guest" {
    run -6 guest -- sh -c 'kill -INT 1; kill -TERM 1; kill -KILL 1; sleep 0.3; exit 6'
}

# bats test_tags=qemu
@test "a guest that hangs is a failure" {
    export SOFTRDMA_SILENCE_SECONDS=6
    begin_guest 'echo begun; sleep 600'
    pkill -STOP -f "(qemu|uml_dir=).*$TMPDIR"
    ends_with 1
    grep -q 'the guest hangs' err
    nothing_left
}

@test "a background process does not keep the guest, nor swallow output" {
    run -0 guest -- sh -c 'setsid sleep 600 & echo printed'
    [[ $output == printed ]]
}

# bats test_tags=qemu
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

# bats test_tags=qemu
@test "on a terminal the command has a terminal, of the same size" {
    run -4 script -qec "stty rows 33 cols 99; '$program' run --in $IN -- sh -c 'stty size; tty; exit 4'" /dev/null </dev/null
    [[ $output == *"33 99"* && $output == */dev/pts/* ]]
}

# bats test_tags=qemu
@test "killed at ten random moments, nothing is left" {
    go_apart
    seen_apart >before
    tenths=$([[ $IN == uml ]] && echo 25 || echo 90)
    for _ in {1..10}; do
        moment=$((RANDOM % tenths))
        begin run --in "$IN" -q --driver both --hosts 2 -- sleep 600
        sleep $((moment / 10)).$((moment % 10))
        kill -KILL "$pid"
        ends_with 137
        awaited 10 nothing_left || {
            echo "after $moment tenths of a second: $(left_over)"
            return 1
        }
    done
    seen_apart >after
    kill "$apart"
    # What is less is another test's: a mount goes in all namespaces with the file that it is on.
    [[ -s before ]] && diff <(comm -13 before after) /dev/null
}

# bats test_tags=qemu
@test "with its working process killed, nothing is left either" {
    begin_guest 'echo begun; setsid sleep 600'
    pkill -KILL -P "$pid"
    ends_with 1
    grep -q 'working process was killed' err
    awaited 10 nothing_left
}

# bats test_tags=qemu
@test "an ordinary user without any capability needs no more" {
    own_cache "$([[ $IN == uml ]] && echo uml || echo kernels)"
    chown -R nobody "$BATS_TEST_TMPDIR"
    chmod 755 "$BATS_RUN_TMPDIR" "$BATS_RUN_TMPDIR/test" "$BATS_TEST_TMPDIR"
    HOME=$PWD run -0 setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all \
        "$program" run --in "$IN" -q --driver both -- bash -c "$ping_on_both"
    [[ $(grep -c '^ping data' <<<"$output") == 10 && $(grep -c '^server DISCONNECT' <<<"$output") == 2 ]]
}
ping_on_both="source '$BATS_TEST_DIRNAME/lib.bash'"'
for driver in RXE SIW; do
    address=SOFTRDMA_${driver}_ADDRESS
    timeout 60 rping -s -a ${!address} -C 5 &
    awaited 10 listens 7174
    rping -c -a ${!address} -C 5 -V -v; wait # judged by what they print: see tripped in lib.bash
done'

@test "in an unprivileged container, where /dev/shm is small and runs no program" {
    [[ $IN == uml ]] || skip 'QEMU does not care'
    own_cache uml
    chown -R nobody "$BATS_TEST_TMPDIR"
    chmod 755 "$BATS_RUN_TMPDIR" "$BATS_RUN_TMPDIR/test" "$BATS_TEST_TMPDIR"
    HOME=$PWD run -0 setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all \
        unshare --map-root-user --net --ipc --uts --pid --mount --fork --mount-proc bash -c '
            mount -t tmpfs -o noexec,size=64m small /dev/shm && exec "$@"' bash \
        "$program" run --in uml -q --driver both -- bash -c "$ping_on_both"
    [[ $(grep -c '^ping data' <<<"$output") == 10 && $(grep -c '^server DISCONNECT' <<<"$output") == 2 ]]
}

@test "where seccomp is refused it goes by ptrace, and says so" {
    [[ $IN == uml ]] || skip 'QEMU does not care'
    run -7 "$BATS_TEST_DIRNAME/without-seccomp" "$program" run --in uml -- sh -c 'ibv_devices; exit 7'
    [[ $output == *"trying ptrace"* && $output == *rxe0* ]]
}

@test "a user-mode guest has what tests of RDMA need" {
    [[ $IN == uml ]] || skip 'a distribution kernel has it all, but for on-demand paging'
    run -0 guest -- sh -exc '
        ip netns add other
        ip link add v0 type veth peer name v1 netns other
        ip link add b0 type bridge
        ip link set v0 master b0
        ip link add d0 up type dummy
        ip link add d0.7 link d0 type vlan id 7
        ip link add m0 link d0 type macvlan
        tc qdisc add dev v0 root netem loss 1%
        ip address add fd00::1/64 dev d0
        python3 -c "import socket; socket.create_server((\"fd00::1\", 7), family=socket.AF_INET6)"
        mount -t tmpfs none /mnt && mkdir /mnt/up /mnt/work /mnt/both
        mount -t overlay -o lowerdir=/etc,upperdir=/mnt/up,workdir=/mnt/work none /mnt/both
        unshare --user --map-root-user true
        [ $(nproc) = $1 ] && [ $(grep -c "cpu MHz" /proc/cpuinfo) = $1 ]
        ibv_devinfo -v -d $SOFTRDMA_DEVICE' sh $(($(nproc) < 2 ? 1 : 2))
    [[ $output =~ max_mw:[[:space:]]*[1-9] && $output == *ODP_SUPPORT* ]]
}
