#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# softrdma up, down and list on a kernel that has the drivers. Needs a softrdma guest.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/lib.bash"

softrdma() { "$BATS_TEST_DIRNAME/../../scripts/softrdma" "$@"; }

# All that up could leave: interfaces, RDMA links, namespaces, mounts, records.
snapshot() {
    ip -o link | sed 's/^[0-9]*: //' | grep -o '^[^:]*'
    rdma link
    ip netns
    cut -d' ' -f1-3 /proc/self/mounts
    ls /run/softrdma
}

unchanged() { # since BEFORE
    diff -u --label before <(echo "$1") --label now <(snapshot)
}

teardown() { softrdma down >/dev/null || true; }

@test "twenty times up and down leaves everything as before" {
    before=$(snapshot)
    for round in {1..10}; do
        for driver in rxe siw; do
            softrdma up --driver "$driver" --name "round$round"
            ibv_devices | grep -q "round$round"
            softrdma down "round$round"
        done
    done
    unchanged "$before"
}

@test "the handle names what there is, and a connection works at once" {
    handle=$(softrdma up --driver siw --name fresh --json)
    for key in device driver netdev address gid_index gid; do
        [[ $(jq -r ".$key" <<<"$handle") != null ]]
    done
    [[ $(jq -r .device <<<"$handle") == fresh ]]
    [[ -d /sys/class/infiniband/fresh && -d /sys/class/net/$(jq -r .netdev <<<"$handle") ]]
    address=$(jq -r .address <<<"$handle")
    PORT=7174 pair "rping -s -a $address -C 3" "rping -c -a $address -C 3 -V"
}

@test "list shows it, as text and as JSON" {
    softrdma up --name shown
    run -0 softrdma list
    [[ $output =~ shown\ +rxe\ +softrdma ]]
    run -0 bash -c "'$BATS_TEST_DIRNAME/../../scripts/softrdma' list --json | jq -r '.devices[] | select(.device == \"shown\") | .state'"
    [[ $output == up ]]
}

@test "a persistent device is made as its file says, once" {
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
    [[ $output == *"not as /etc/softrdma.d/kept.conf says"* ]]
    run -0 softrdma down kept
    [[ $output == *"the next boot makes it again"* ]]
    rm /etc/softrdma.d/kept.conf
    run -2 softrdma up kept
    run -77 softrdma up --keep # no systemd booted this guest
}

@test "a device on a given interface leaves the interface when it goes" {
    ip link add mine type dummy
    ip address add 198.18.250.9/24 dev mine
    ip link set mine up
    run -0 softrdma up --netdev mine --name onmine
    [[ $output == *198.18.250.9* ]]
    softrdma down onmine
    [[ ! -e /sys/class/infiniband/onmine && -e /sys/class/net/mine ]]
    ip link delete mine
}

@test "down refuses what softrdma did not make" {
    ip link add other type dummy
    ip link set other up
    rdma link add foreign type rxe netdev other
    run -2 softrdma down foreign
    [[ $output == *"did not make"* ]]
    [[ -e /sys/class/infiniband/foreign ]]
    rdma link delete foreign
    ip link delete other
}

@test "down refuses a device in use and says by whom" {
    address=$(softrdma up --name busy --json | jq -r .address)
    rping -s -a "$address" >/dev/null 2>&1 3>&- &
    awaited 20 listens 7174
    run -1 softrdma down busy
    [[ $output == *"rping"* ]]
    kill $!
    wait $! || true
    softrdma down busy
}

@test "a name that is taken is refused, and nothing is left" {
    softrdma up --name twice
    before=$(snapshot)
    run -1 softrdma up --name twice
    [[ $output == *"exists already"* ]]
    unchanged "$before"
}

@test "an interface without carrier: an error after the limit, and nothing is left" {
    ip link add downed type dummy
    before=$(snapshot)
    run -1 softrdma up --netdev downed --name never
    [[ $output == *"did not come up"* ]]
    unchanged "$before"
    ip link delete downed
}

@test "up that is killed at any moment leaves what down can remove, or nothing" {
    before=$(snapshot)
    for delay in 0.1 0.3 0.5 0.7 0.9 1.1; do
        "$BATS_TEST_DIRNAME/../../scripts/softrdma" up --name killed >/dev/null 2>&1 3>&- &
        sleep "$delay"
        kill -KILL $! 2>/dev/null || true
        wait $! || true
        awaited 10 not_running
        softrdma down >/dev/null
        unchanged "$before"
    done
}
not_running() { ! pgrep -f 'softrdma up' >/dev/null; }

@test "run --in here: the status passes through, and nothing is left" {
    before=$(snapshot)
    run -5 softrdma run --in here --driver siw -- sh -c 'ibv_devinfo -d $SOFTRDMA_DEVICE >/dev/null && exit 5'
    unchanged "$before"
    run -1 softrdma run --in here -- false
    run -127 softrdma run --in here -- no-such-program
    run -137 softrdma run --in here -- sh -c 'kill -KILL $$'
    unchanged "$before"
}

@test "run --in here --hosts 2 that is killed leaves nothing, daemons neither" {
    before=$(snapshot)
    for driver in rxe siw; do
        "$BATS_TEST_DIRNAME/../../scripts/softrdma" run --in here --driver $driver --hosts 2 -- \
            sh -c 'setsid on 2 sleep 4711 & touch /tmp/begun; sleep 4711' 3>&- &
        awaited 30 test -e /tmp/begun
        rm /tmp/begun
        kill -KILL $!
        wait $! || true
        awaited 15 quiet
        unchanged "$before"
    done
}
quiet() { ! pgrep -f 'softrdma run --in here|sleep 4711' >/dev/null; }
