#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# coherdma doctor where soft devices exist: what is wrong is seen, and what it says to type mends
# it. Needs a softrdma guest with both drivers.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/lib.bash"

doctor() { "$BUILD/release/tools/coherdma" doctor "$@"; }
as_nobody() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }

# found DEVICE ID: state and evidence of a check, "" being the device of what is about the machine
found() {
    jq -r --arg device "$1" --arg id "$2" \
        '.checks[] | select(.id == $id and (.device // "") == $device) | .state + " " + .evidence' <<<"$output"
}
typed() { # what a check says to type
    jq -r --arg device "$1" --arg id "$2" \
        '.checks[] | select(.id == $id and (.device // "") == $device) | .command' <<<"$output"
}
# mends DEVICE ID: to type what the check of the last run says makes all well
mends() {
    local command
    command=$(typed "$1" "$2")
    [[ $command ]] && bash -c "$command"
    run -0 --separate-stderr doctor --json
    [[ $(found "$1" "$2") == ok* ]]
}

setup() {
    rxe=$(of rxe NETDEV) siw=$(of siw NETDEV)
}
teardown() {
    chmod 0666 /dev/infiniband/uverbs*
    rm -f /etc/libibverbs.d/gone.driver
    for driver in rxe siw; do
        ip link set "$(of $driver NETDEV)" up
        ip address flush dev "$(of $driver NETDEV)" scope global
        ip address add "$(of $driver ADDRESS)/24" dev "$(of $driver NETDEV)"
    done
}

@test "doctor: all is well, and says which GID" {
    run -0 --separate-stderr doctor
    [[ -z $stderr ]]
    echo "$output"
    [[ ${lines[-1]} == 'Working RDMA devices: rxe0, siw0' ]]
    [[ ! $output =~ (^|$'\n')(warn|fail|skip) ]]
    [[ $output == *"rxe0: GIDs: index $(of rxe GID_INDEX) ($(of rxe ADDRESS)): RoCE v2"* ]]
    [[ $output == *"iWARP goes by the address $(of siw ADDRESS)"* ]]
    [[ $output == *"rxe0: cache coherency: rxe0 is coherent"* ]]
}

@test "doctor: JSON has each check once per device" {
    run -0 --separate-stderr doctor --json
    [[ $(jq .schema <<<"$output") == 1 ]]
    [[ $(jq '[.checks[] | .id + "/" + .device] | length == (unique | length)' <<<"$output") == true ]]
    [[ $(jq -c .summary.working <<<"$output") == '["rxe0","siw0"]' ]]
}

@test "doctor: an interface that is down, and what is typed mends it" {
    for driver in rxe siw; do
        ip link set "$(of $driver NETDEV)" down
        run -1 --separate-stderr doctor --json
        [[ $(found ${driver}0 port) == "fail DOWN, because its interface $(of $driver NETDEV) is down." ]]
        [[ $(jq -r .summary.next <<<"$output") == "ip link set $(of $driver NETDEV) up" ]]
        mends ${driver}0 port
    done
}

@test "doctor: no address on the interface, and what is typed mends it" {
    ip address flush dev "$rxe" scope global
    run -0 --separate-stderr doctor --json rxe0
    [[ $(found rxe0 gid) == "warn only 0 (fe80::"* ]]
    mends rxe0 gid
    ip address flush dev "$siw" scope global
    run -1 --separate-stderr doctor --json
    [[ $(found siw0 gid) == "fail iWARP goes by addresses"* ]]
    mends siw0 gid
}

@test "doctor: little memory to pin is a warning, except with CAP_IPC_LOCK" {
    run -0 --separate-stderr bash -c "ulimit -l 64; '$BUILD/release/tools/coherdma' doctor --json"
    [[ $(found "" memlock) == ok* ]]
    run -0 --separate-stderr bash -c "ulimit -l 64
        setpriv --bounding-set -ipc_lock '$BUILD/release/tools/coherdma' doctor --json"
    [[ $(found "" memlock) == "warn only 64 KiB"* ]]
    run -0 --separate-stderr bash -c "ulimit -l 64; $(typed "" memlock)
        setpriv --bounding-set -ipc_lock '$BUILD/release/tools/coherdma' doctor --json"
    [[ $(found "" memlock) == "ok no limit." ]]
}

@test "doctor: a node that is not for this user" {
    chmod 0600 /dev/infiniband/uverbs0
    run -0 --separate-stderr doctor --json # root may
    run -1 --separate-stderr as_nobody "$BUILD/release/tools/coherdma" doctor --json rxe0
    [[ $(found rxe0 node) == "fail /dev/infiniband/uverbs0 is not for user nobody: mode 0600, group root." ]]
    [[ $(typed rxe0 node) == "sudo chmod 0666 /dev/infiniband/uverbs0" ]]
    chmod 0666 /dev/infiniband/uverbs0
    run -0 --separate-stderr as_nobody "$BUILD/release/tools/coherdma" doctor --json rxe0
    [[ $(found rxe0 open) == ok* ]]
}

@test "doctor: a stale line of libibverbs.d, and what is typed mends it" {
    echo 'driver gone' >/etc/libibverbs.d/gone.driver
    [[ $(ibv_devices 2>&1) == *Warning* ]]
    run -0 --separate-stderr doctor --json
    [[ -z $stderr && $(found "" driver_lines) == "warn driver gone: no such file"* ]]
    chmod 0600 /dev/infiniband/uverbs*
    run -1 --separate-stderr as_nobody "$BUILD/release/tools/coherdma" doctor
    [[ -z $stderr ]]
    chmod 0666 /dev/infiniband/uverbs*
    run -0 --separate-stderr doctor --json
    mends "" driver_lines
    [[ $(ibv_devices 2>&1) != *Warning* ]]
}

@test "doctor: from a network namespace without the interface" {
    run -0 --separate-stderr unshare --net "$BUILD/release/tools/coherdma" doctor --json rxe0
    [[ $(found rxe0 port) == "warn ACTIVE, but its interface $rxe is not in this network namespace." ]]
}

@test "doctor: whether network namespaces share devices" {
    run -0 --separate-stderr doctor --json
    [[ $(found "" netns) == "ok shared: "* ]]
    rdma system set netns exclusive
    run -0 --separate-stderr doctor --json
    [[ $(found "" netns) == "ok exclusive: "* ]]
    run -1 --separate-stderr unshare --net --mount sh -c "mount -t sysfs none /sys
        '$BUILD/release/tools/coherdma' doctor --json"
    [[ $(found "" device) == "fail none in this network namespace"* ]]
    awaited 10 rdma system set netns shared # once the other namespace is gone
}

@test "doctor: a device that does not exist" {
    run -1 --separate-stderr doctor rxe7
    [[ $output == *"there is no rxe7; there are: rxe0, siw0."* ]]
}
