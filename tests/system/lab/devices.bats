#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# softrdma up, down and list on a kernel that has the drivers. Needs a softrdma guest.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"

softrdma() { "$BATS_TEST_DIRNAME/../../../scripts/softrdma" "$@"; }

# snapshot: what `up` could leave: interfaces, RDMA links, namespaces, mounts, records, and settings.
snapshot() {
    ip -o link | sed 's/^[0-9]*: //' | grep -o '^[^:]*'
    rdma link
    ip netns
    cut -d' ' -f1-3 /proc/self/mounts
    ls /run/softrdma
    cat /proc/sys/net/ipv4/ip_nonlocal_bind
    ip rule
}

expect_unchanged() { # BEFORE
    diff -u --label before <(echo "$1") --label now <(snapshot)
}

teardown() { softrdma down >/dev/null || true; } # fails if a failed test left a device in use

@test "up and down, repeatedly, leave no trace" {
    before=$(snapshot)
    for round in 1 2; do
        for driver in rxe siw; do
            softrdma up --driver "$driver" --name "round$round"
            ibv_devices | grep -q "round$round"
            softrdma down "round$round"
        done
    done
    expect_unchanged "$before"
}

@test "siw: up --json describes the device, and rping connects at once" {
    device=$(softrdma up --driver siw --name fresh --json)
    for key in device driver netdev address gid_index gid; do
        [[ $(jq -r ".$key" <<<"$device") != null ]]
    done
    [[ $(jq -r .device <<<"$device") == fresh ]]
    [[ -d /sys/class/infiniband/fresh && -d /sys/class/net/$(jq -r .netdev <<<"$device") ]]
    address=$(jq -r .address <<<"$device")
    PORT=7174 run_server_client "rping -s -a $address -C 3" "rping -c -a $address -C 3 -V"
}

@test "the MTU of a device that up makes is 4096 bytes" {
    softrdma up --name large
    mtu=$(ibv_devinfo -d large | awk '/active_mtu/ { print $2 }')
    echo "$mtu"
    [[ $mtu == 4096 ]]
}

@test "list shows a device as text and as JSON" {
    softrdma up --name shown
    run -0 softrdma list
    [[ $output =~ shown\ +rxe\ +softrdma ]]
    run -0 bash -c "'$BATS_TEST_DIRNAME/../../../scripts/softrdma' list --json | jq -r '.devices[] | select(.device == \"shown\") | .state'"
    [[ $output == up ]]
}

@test "up makes a persistent device as its file says, once" {
    mkdir -p /etc/softrdma.d
    echo 'driver = siw' >/etc/softrdma.d/kept.conf
    run -0 softrdma list
    [[ $output =~ kept\ +siw\ .*\ down\ +yes ]]
    run -2 softrdma up --name kept
    run -0 softrdma up kept
    [[ $output == *"kept is up: siw"* ]]
    run -0 softrdma up kept --json
    [[ $(jq -r .device <<<"$output") == kept && $(rdma link | grep -c kept) == 1 ]]
    echo 'driver = rxe' >/etc/softrdma.d/kept.conf
    run -1 softrdma up kept
    [[ $output == *"differs from /etc/softrdma.d/kept.conf"* ]]
    run -0 softrdma down kept
    [[ $output == *"the next boot makes it again"* ]]
    rm /etc/softrdma.d/kept.conf
    run -2 softrdma up kept
    run -77 softrdma up --keep # systemd did not boot this guest
}

@test "down keeps an interface that was given with --netdev" {
    ip link add dummy-netdev type dummy
    ip address add 198.18.250.9/24 dev dummy-netdev
    ip link set dummy-netdev up
    run -0 softrdma up --netdev dummy-netdev --name given
    [[ $output == *198.18.250.9* ]]
    softrdma down given
    [[ ! -e /sys/class/infiniband/given && -e /sys/class/net/dummy-netdev ]]
    ip link delete dummy-netdev
}

@test "down refuses a device that softrdma did not make" {
    ip link add other type dummy
    ip link set other up
    rdma link add foreign type rxe netdev other
    run -2 softrdma down foreign
    [[ $output == *"did not make"* ]]
    [[ -e /sys/class/infiniband/foreign ]]
    rdma link delete foreign
    ip link delete other
}

@test "down refuses a device in use and names its user" {
    address=$(softrdma up --name busy --json | jq -r .address)
    rping -s -a "$address" >/dev/null 2>&1 3>&- &
    wait_until is_listening 7174
    run -1 softrdma down busy
    [[ $output == *"rping"* ]]
    kill $!
    wait $! || true # killed by the signal
    softrdma down busy
}

@test "up refuses a name in use, and leaves no trace" {
    softrdma up --name twice
    before=$(snapshot)
    run -1 softrdma up --name twice
    [[ $output == *"exists already"* ]]
    expect_unchanged "$before"
}

@test "up on an interface without carrier fails, and leaves no trace" {
    ip link add downed type dummy
    before=$(snapshot)
    run -1 softrdma up --netdev downed --name never
    [[ $output == *"is not ready"* ]]
    expect_unchanged "$before"
    ip link delete downed
}

@test "up that is killed at any moment leaves no more than down removes" {
    before=$(snapshot)
    for delay in 0.1 0.3 0.5 0.7 0.9 1.1; do
        "$BATS_TEST_DIRNAME/../../../scripts/softrdma" up --name killed >/dev/null 2>&1 3>&- &
        sleep "$delay" # the subject of the test
        kill -KILL $! 2>/dev/null || true # it may have ended
        wait $! || true                   # killed by the signal
        wait_until has_no_process 'softrdma up'
        softrdma down >/dev/null
        expect_unchanged "$before"
    done
}
has_no_process() { ! pgrep -f "$1" >/dev/null; } # PATTERN

@test "run --in here: the status passes through, and no trace is left" {
    before=$(snapshot)
    run -5 softrdma run --in here --driver siw -- sh -c 'ibv_devinfo -d $SOFTRDMA_DEVICE >/dev/null && exit 5'
    expect_unchanged "$before"
    run -1 softrdma run --in here -- false
    run -127 softrdma run --in here -- no-such-program
    run -137 softrdma run --in here -- sh -c 'kill -KILL $$'
    expect_unchanged "$before"
}

@test "run --in here --hosts 2: netem impairs the wire, and what it cannot do is refused" {
    # shellcheck disable=SC2016 # expanded on each host
    run -0 softrdma run -q --in here --driver siw --hosts 2 --loss 1% --duplicate 2% --delay 3ms --rate 50mbit -- \
        sh -c 'for host in 1 2; do on $host sh -c "tc qdisc show dev \$SOFTRDMA_NETDEV"; done'
    [[ $(grep -c 'netem .*delay 3ms.*loss 1%.*duplicate 2%.*rate 50Mbit' <<<"$output") == 2 ]]
    for options in '--loss 1% --seed 1' '--reorder 1%' '--corrupt 1%' '--pcap wire.pcapng'; do
        # shellcheck disable=SC2086
        run -77 softrdma run --in here --driver siw --hosts 2 $options -- true
        [[ $output == *' needs hosts that have a kernel each; use: softrdma run --in uml' ]]
    done
    [[ ! -e wire.pcapng ]]
}

@test "run --in here --hosts 2 that is killed leaves no trace and no daemon" {
    before=$(snapshot)
    for driver in rxe siw; do
        "$BATS_TEST_DIRNAME/../../../scripts/softrdma" run --in here --driver $driver --hosts 2 -- \
            sh -c 'setsid on 2 sleep 4711 & touch /tmp/begun; sleep 4711' 3>&- &
        wait_until test -e /tmp/begun
        rm /tmp/begun
        kill -KILL $!
        wait $! || true # killed by the signal
        wait_until has_no_process 'softrdma run --in here|sleep 4711'
        expect_unchanged "$before"
    done
}

# Not in the gate: on a busy machine one run of some hundred left the namespace of host 2, for a cause that is not known.
# bats test_tags=killed_worker
@test "run --in here whose worker is killed leaves no trace and no daemon" {
    before=$(snapshot)
    for options in '--driver rxe' '--driver siw' '--driver rxe --hosts 2' '--driver siw --hosts 2'; do
        # shellcheck disable=SC2086 # words
        lib=$lib "$BATS_TEST_DIRNAME/../../../scripts/softrdma" run --in here $options -- sh -c '
            trap "" TERM
            (setsid rping -s -a $SOFTRDMA_ADDRESS &) # has the device open
            until "$lib/is_listening" 7174; do sleep 0.05; done
            touch /tmp/begun
            exec sleep 4711' 3>&- >/tmp/out 2>&1 &
        wait_until test -e /tmp/begun
        rm /tmp/begun
        pkill -KILL -P $!
        wait_until has_ended $! || { pkill -KILL rping && return 1; }
        status=0
        wait $! || status=$?
        cat /tmp/out
        [[ $status == 1 && $(</tmp/out) == *"worker process was killed"* ]]
        has_no_process 'rping|sleep 4711|softrdma run'
        expect_unchanged "$before"
    done
}
has_ended() { ! kill -0 "$1" 2>/dev/null; } # PID

# without_guest_kernels: `run` finds no kernel for a guest, and cannot fetch one, so that a test sees what it selects.
without_guest_kernels() { export SOFTRDMA_CACHE=$BATS_TEST_TMPDIR/none SOFTRDMA_MIRROR=http://127.0.0.1:9/debian; }

@test "run says that it uses the running kernel, what it leaves, and how to avoid it" {
    run -0 --separate-stderr softrdma run --driver both -- echo printed
    # shellcheck disable=SC2154
    echo "$stderr"
    # shellcheck disable=SC2154
    [[ $output == printed && ${#stderr_lines[@]} == 1 ]]
    [[ $stderr == *"the running kernel $(uname -r)"*'all files'*'are kept'*'rdma_rxe and siw stay loaded'*'--in uml' ]]
    run -0 --separate-stderr softrdma run --write "$BATS_TEST_TMPDIR" -- true
    [[ $stderr == *'are kept, also without --write'* && ${#stderr_lines[@]} == 1 ]]
    for options in '-q' '--in here'; do
        # shellcheck disable=SC2086 # words
        run -0 --separate-stderr softrdma run $options -- true
        [[ -z $stderr ]]
    done
}

@test "run as root without a capability selects a guest, and --in here names the capability" {
    without_guest_kernels
    before=$(snapshot)
    for capability in net_admin sys_admin; do
        limited=(setpriv --bounding-set "-$capability" "$BATS_TEST_DIRNAME/../../../scripts/softrdma" run --hosts 2)
        run -77 "${limited[@]}" --in here -- touch /tmp/ran
        [[ $output == *"needs CAP_${capability^^}, which this process lacks"*'; use: softrdma run --in '* && ${#lines[@]} == 1 ]]
        run -77 "${limited[@]}" -- touch /tmp/ran
        [[ ${lines[0]} == *"needs CAP_${capability^^}"*'; using a QEMU guest'* ]]
    done
    run -77 unshare --user --map-root-user "$BATS_TEST_DIRNAME/../../../scripts/softrdma" run --in here -- touch /tmp/ran
    [[ $output == *'user namespace'* && ! -e /tmp/ran ]]
    expect_unchanged "$before"
}

@test "run selects a guest if the kernel refuses the device, and leaves no trace of the attempt" {
    without_guest_kernels
    before=$(snapshot)
    # The interface can be made, the RDMA device cannot.
    printf '#!/bin/sh\nexec setpriv --bounding-set -net_admin %s "$@"\n' "$(command -v rdma)" >"$BATS_TEST_TMPDIR/rdma"
    chmod +x "$BATS_TEST_TMPDIR/rdma"
    PATH=$BATS_TEST_TMPDIR:$PATH
    for options in '' '--driver both' '--driver siw --hosts 2'; do
        # shellcheck disable=SC2086 # words
        run -77 softrdma run $options -- touch /tmp/ran
        echo "$output"
        [[ ${lines[0]} == *'rdma'*'Operation not permitted; using a QEMU guest'* ]]
        # shellcheck disable=SC2086 # words
        run -77 softrdma run --in here $options -- touch /tmp/ran
        [[ $output == *'Operation not permitted; use: softrdma run --in '* && ${#lines[@]} == 1 ]]
        expect_unchanged "$before"
    done
    [[ ! -e /tmp/ran ]]
}
