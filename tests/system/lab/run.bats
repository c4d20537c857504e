#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# softrdma run in a guest: status, streams, signals, and cleanup. $IN is the kind of guest: uml or qemu. Tests with
# the tag qemu run in both.

bats_require_minimum_version 1.8.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"
source "$BATS_TEST_DIRNAME/../lib/caller.bash"

run_in_guest() { softrdma run --in "$IN" -q "$@"; }

# start_guest COMMAND: returns when the command has printed "begun".
start_guest() {
    start_softrdma run --in "$IN" -q -- sh -c "$1"
    wait_until is_ready_or_ended "$pid" grep -q begun out
    grep -q begun out || expect_status 'that of a command that began'
}

# enter_own_namespaces: later calls of softrdma run in network and mount namespaces that no other test changes.
enter_own_namespaces() {
    unshare --net --mount sleep infinity 3>&- &
    namespace_pid=$!
    wait_until has_own_namespaces
    printf '#!/bin/sh\nexec nsenter --net --mount -t %s --wd="$PWD" "%s" "$@"\n' "$namespace_pid" "$program" >enter
    chmod +x enter
    program=$PWD/enter
}
has_own_namespaces() { ! [[ /proc/$namespace_pid/ns/mnt -ef /proc/self/ns/mnt || /proc/$namespace_pid/ns/net -ef /proc/self/ns/net ]]; }
links_and_mounts() {
    {
        nsenter --net -t "$namespace_pid" ip -o link | grep -o '^[0-9]*: [^:]*'
        cut -d' ' -f1-3 "/proc/$namespace_pid/mounts"
    } | sort
}

@test "the status of the command passes through, also from an installed softrdma" {
    cp -r "$BUILD/stage/usr" . # Python writes its cache beside the modules
    program=$PWD/usr/bin/softrdma
    run -42 run_in_guest -- sh -c 'exit 42'
    run -137 run_in_guest -- sh -c 'kill -KILL $$'
    run -127 run_in_guest -- no-such-program
    [[ $output == *"no-such-program"* ]]
}

@test "without a cache, the kernel of a package is run" {
    [[ $IN == uml ]] || skip 'no package has a kernel for QEMU'
    mkdir -p usr/bin usr/share/softrdma usr/lib/softrdma/uml
    cp "$program" usr/bin
    cp -r "$BATS_TEST_DIRNAME/../../../scripts/lab" usr/share/softrdma
    cp -r "$(dirname "$(softrdma kernel path)")" usr/lib/softrdma/uml/its-name
    program=usr/bin/softrdma
    export SOFTRDMA_CACHE=$PWD/none
    run -0 softrdma kernel path
    [[ $output == "$PWD/usr/lib/softrdma/uml/its-name/linux" ]]
    run -5 run_in_guest -- sh -c '[ -d /sys/class/infiniband/rxe0 ] && exit 5'
    [[ ! -e $SOFTRDMA_CACHE ]]
}

# bats test_tags=qemu
@test "standard input, output and error pass unchanged and separately" {
    head -c 3000000 /dev/urandom >bytes
    run_in_guest -- sh -c 'tee /dev/stderr' <bytes >out 2>err
    cmp bytes out
    cmp bytes err
}

# bats test_tags=qemu
@test "the guest sees the caller's files; what it writes is gone, except in folders of --write" {
    mkdir kept 'with blank'
    echo seen >file
    run_in_guest --write kept --write 'with blank' -- \
        sh -c 'cat file; touch gone kept/one "with blank/two"' >out
    [[ $(cat out) == seen && -e kept/one && -e 'with blank/two' && ! -e gone ]]
}

# bats test_tags=qemu
@test "a guest that panics is a failure" {
    start_guest 'echo begun; echo "exit 0"; echo "exit 0" >/dev/console; sync
        [ ! -e /proc/sysrq-trigger ] || echo c >/proc/sysrq-trigger; sleep infinity'
    # The user-mode kernel has no sysrq: send a SIGSEGV. If a helper thread gets it, the kernel ends
    # without a message.
    if [[ $IN == uml ]]; then kill -SEGV "$(guest_pids .)"; fi
    expect_status 1
    grep 'ended before the command did' err || { cat err && false; }
    [[ $IN == uml ]] || grep -q 'Kernel panic' err
}

@test "a guest that powers off before the command ends is a failure" {
    run -1 run_in_guest -- sh -c 'echo "exit 0"; python3 -c "import ctypes; ctypes.CDLL(None).reboot(0x4321fedc)"; sleep infinity'
    [[ $output == *"ended before the command did"* ]]
}

@test "signals to process 1 do not end the guest" {
    run -6 run_in_guest -- sh -c 'kill -INT 1; kill -TERM 1; kill -KILL 1; sleep 0.3; exit 6'
}

# bats test_tags=qemu
@test "a guest that hangs is a failure" {
    export SOFTRDMA_SILENCE_SECONDS=20 # longer than a guest is silent while it boots on a busy machine
    start_guest 'echo begun; sleep infinity'
    kill -STOP "$(guest_pids .)"
    expect_status 1
    grep -q 'the guest hangs' err
    is_nothing_left
}

@test "a background process of the command does not delay the guest's end" {
    run -0 run_in_guest -- sh -c 'setsid sleep infinity & echo printed'
    [[ $output == printed ]]
}

# bats test_tags=qemu
@test "SIGINT reaches the command, whose status counts" {
    start_guest 'trap "echo trapped; exit 9" INT; echo begun; while :; do sleep 0.1; done'
    kill -INT "$pid"
    expect_status 9
    grep -q trapped out
    is_nothing_left
}

@test "a guest ends although its command ignores SIGTERM" {
    start_guest 'trap "" TERM; echo begun; while :; do sleep 0.1; done'
    kill -TERM "$pid"
    expect_status 143
    is_nothing_left
}

# bats test_tags=qemu
@test "a terminal is passed on with its size" {
    run -4 script -qec "stty rows 33 cols 99; '$program' run --in $IN -- sh -c 'stty size; tty; exit 4'" /dev/null </dev/null
    [[ $output == *"33 99"* && $output == */dev/pts/* ]]
}

# bats test_tags=qemu
@test "a run that is killed at random moments leaves nothing" {
    enter_own_namespaces
    links_and_mounts >before
    tenths=$([[ $IN == uml ]] && echo 25 || echo 90)
    kill_at_random_moments 5 "$tenths" --in "$IN" --driver both --hosts 2 -- sleep infinity
    links_and_mounts >after
    kill "$namespace_pid"
    # Fewer are accepted: if another test removes a mounted file, the mount disappears from all namespaces.
    [[ -s before ]] && diff <(comm -13 before after) /dev/null
}

# bats test_tags=qemu
@test "a run whose worker process is killed leaves nothing" {
    start_guest 'echo begun; setsid sleep infinity'
    pkill -KILL -P "$pid"
    expect_status 1
    grep -q 'worker process was killed' err
    is_nothing_left
}

# bats test_tags=qemu
@test "a user without capabilities can run a guest" {
    use_own_cache "$([[ $IN == uml ]] && echo uml || echo kernels)"
    chown -R nobody "$BATS_TEST_TMPDIR"
    chmod 755 "$BATS_RUN_TMPDIR" "$BATS_RUN_TMPDIR/test" "$BATS_TEST_TMPDIR"
    HOME=$PWD run -0 setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all \
        "$program" run --in "$IN" -q --driver both -- bash -c "$rping_on_both"
    [[ $(grep -c '^ping data' <<<"$output") == 10 && $(grep -c '^server DISCONNECT' <<<"$output") == 2 ]]
}
rping_on_both="source '$BATS_TEST_DIRNAME/../lib/lib.bash'"'
for driver in RXE SIW; do
    address=SOFTRDMA_${driver}_ADDRESS
    rping -s -a ${!address} -C 5 &
    wait_until is_listening 7174
    rping -c -a ${!address} -C 5 -V -v; wait # the output counts: see is_rping_exit_race
done'

@test "uml: a guest runs in a container with a small noexec /dev/shm" {
    [[ $IN == uml ]] || skip 'not relevant for QEMU'
    use_own_cache uml
    chown -R nobody "$BATS_TEST_TMPDIR"
    chmod 755 "$BATS_RUN_TMPDIR" "$BATS_RUN_TMPDIR/test" "$BATS_TEST_TMPDIR"
    HOME=$PWD run -0 setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all \
        unshare --map-root-user --net --ipc --uts --pid --mount --fork --mount-proc bash -c '
            mount -t tmpfs -o noexec,size=64m small /dev/shm && exec "$@"' bash \
        "$program" run --in uml -q --driver both -- bash -c "$rping_on_both"
    [[ $(grep -c '^ping data' <<<"$output") == 10 && $(grep -c '^server DISCONNECT' <<<"$output") == 2 ]]
}

@test "uml: without seccomp the guest runs by ptrace, and the message says so" {
    [[ $IN == uml ]] || skip 'not relevant for QEMU'
    run -7 "$BATS_TEST_DIRNAME/../lib/without" seccomp "$program" run --in uml -- sh -c 'ibv_devices; exit 7'
    [[ $output == *"trying ptrace"* && $output == *"it has no filter of system calls"* && $output == *rxe0* ]]
}

@test "uml: the guest's kernel has the features that RDMA tests need" {
    [[ $IN == uml ]] || skip 'a Debian kernel has them all, except on-demand paging'
    run -0 run_in_guest -- sh -exc '
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

@test "bench prints a table of both drivers, and JSON" {
    run -0 --separate-stderr softrdma bench --in "$IN" -q
    [[ -z $stderr && ${lines[0]} == "driver  write 64 KiB   write 4 KiB  write 64 B" ]]
    numbers='( +[1-9][0-9]* MiB/s){2} +[1-9][0-9.]* us, 99 % [1-9][0-9.]* us'
    [[ ${lines[1]} =~ ^\ +rxe$numbers$ && ${lines[2]} =~ ^\ +siw$numbers$ ]]
    run -0 --separate-stderr softrdma bench --in "$IN" --hosts 2 --driver siw --json -q
    jq -e '.hosts == 2 and (.drivers | keys) == ["siw"] and ([.drivers.siw[][]] | length == 4 and all(. > 0))' <<<"$output"
}
@test "bench measures the driver that it is asked for, whatever the environment, and is silent if it is stopped" {
    # shellcheck disable=SC2016 # expanded in the guest
    run -0 --separate-stderr run_in_guest --driver both -- sh -c '
        "$0" bench --in here --driver siw --json -q | jq -r ".drivers | keys[]"
        "$0" bench --in here --driver siw --hosts 2
        echo $?
        "$0" bench --in here --driver rxe | head -n 1' "$program"
    [[ $output == $'siw\n77\ndriver  write'* && ${#lines[@]} == 3 ]]
    [[ $stderr == "softrdma: bench: siw between two hosts of one kernel: "*"use: softrdma bench --in uml --hosts 2" ]]
}
@test "bench without perftest names the package" {
    # shellcheck disable=SC2016 # expanded by sh
    run -77 unshare --mount sh -c '
        for program in ib_write_bw ib_write_lat; do mount --bind /dev/null /usr/bin/$program; done
        exec "$0" bench' "$program"
    [[ $output == *"bench needs ib_write_bw and ib_write_lat, which are not installed; try: apt-get install perftest" ]]
}
