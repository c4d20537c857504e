#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# coherdma doctor with soft devices: it finds faults, and the commands that it suggests fix them. Needs a softrdma
# guest with both drivers.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"

doctor() { "$BUILD/tools/coherdma" doctor "$@"; }

# check_result DEVICE ID: state and evidence of a check; device "": of the machine.
check_result() {
    jq -r --arg device "$1" --arg id "$2" \
        '.checks[] | select(.id == $id and (.device // "") == $device) | .state + " " + .evidence' <<<"$output"
}
suggested_command() { # DEVICE ID
    jq -r --arg device "$1" --arg id "$2" \
        '.checks[] | select(.id == $id and (.device // "") == $device) | .fix' <<<"$output"
}
# expect_fixed_by_suggestion DEVICE ID: the command that the last run suggests makes the check pass.
expect_fixed_by_suggestion() {
    local command
    command=$(suggested_command "$1" "$2")
    [[ $command ]] && bash -c "$command"
    run -0 --separate-stderr doctor --json
    [[ $(check_result "$1" "$2") == ok* ]]
}

setup() {
    rxe=$(device_fact rxe NETDEV) siw=$(device_fact siw NETDEV)
}
teardown() {
    chmod 0666 /dev/infiniband/uverbs*
    rm -f /etc/libibverbs.d/gone.driver
    for driver in rxe siw; do
        ip link set "$(device_fact $driver NETDEV)" up
        ip address flush dev "$(device_fact $driver NETDEV)" scope global
        ip address add "$(device_fact $driver ADDRESS)/24" dev "$(device_fact $driver NETDEV)"
    done
}

@test "doctor reports no fault of working devices, and the GID to use" {
    run -0 --separate-stderr doctor
    [[ -z $stderr ]]
    echo "$output"
    [[ ${lines[-1]} == 'Working RDMA devices: rxe0, siw0' ]]
    [[ ! $output =~ (^|$'\n')(warn|fail|skip) ]]
    [[ $output == *"rxe0: GIDs: index $(device_fact rxe GID_INDEX) ($(device_fact rxe ADDRESS)): RoCE v2"* ]]
    [[ $output == *"iWARP uses the address $(device_fact siw ADDRESS)"* ]]
    [[ $output == *"rxe0: cache coherency: rxe0 is coherent"* ]]
}

@test "doctor --json has each check once per device" {
    run -0 --separate-stderr doctor --json
    [[ $(jq .schema <<<"$output") == 1 ]]
    [[ $(jq '[.checks[] | .id + "/" + .device] | length == (unique | length)' <<<"$output") == true ]]
    [[ $(jq -c .summary.working <<<"$output") == '["rxe0","siw0"]' ]]
}

@test "doctor finds an interface that is down, and its suggestion fixes it" {
    for driver in rxe siw; do
        ip link set "$(device_fact $driver NETDEV)" down
        run -1 --separate-stderr doctor --json
        [[ $(check_result ${driver}0 port) == "fail DOWN, because its interface $(device_fact $driver NETDEV) is down." ]]
        [[ $(jq -r .summary.next <<<"$output") == "ip link set $(device_fact $driver NETDEV) up" ]]
        expect_fixed_by_suggestion ${driver}0 port
    done
}

@test "doctor finds an interface without an address, and its suggestion fixes it" {
    ip address flush dev "$rxe" scope global
    run -0 --separate-stderr doctor --json rxe0
    [[ $(check_result rxe0 gid) == "warn only 0 (fe80::"* ]]
    expect_fixed_by_suggestion rxe0 gid
    ip address flush dev "$siw" scope global
    run -1 --separate-stderr doctor --json
    [[ $(check_result siw0 gid) == "fail iWARP uses IP addresses"* ]]
    expect_fixed_by_suggestion siw0 gid
}

@test "doctor warns of a small memlock limit, except with CAP_IPC_LOCK" {
    run -0 --separate-stderr bash -c "ulimit -l 64; '$BUILD/tools/coherdma' doctor --json"
    [[ $(check_result "" memlock) == ok* ]]
    run -0 --separate-stderr bash -c "ulimit -l 64
        setpriv --bounding-set -ipc_lock '$BUILD/tools/coherdma' doctor --json"
    [[ $(check_result "" memlock) == "warn only 64 KiB"* ]]
    run -0 --separate-stderr bash -c "ulimit -l 64; $(suggested_command "" memlock)
        setpriv --bounding-set -ipc_lock '$BUILD/tools/coherdma' doctor --json"
    [[ $(check_result "" memlock) == "ok no limit." ]]
}

@test "doctor finds a device node that the user cannot open" {
    chmod 0600 /dev/infiniband/uverbs0
    run -0 --separate-stderr doctor --json # root may
    run -1 --separate-stderr as_nobody "$BUILD/tools/coherdma" doctor --json rxe0
    [[ $(check_result rxe0 node) == "fail /dev/infiniband/uverbs0 is not accessible to user nobody: mode 0600, group root." ]]
    [[ $(suggested_command rxe0 node) == "sudo chmod 0666 /dev/infiniband/uverbs0" ]]
    chmod 0666 /dev/infiniband/uverbs0
    run -0 --separate-stderr as_nobody "$BUILD/tools/coherdma" doctor --json rxe0
    [[ $(check_result rxe0 open) == ok* ]]
}

@test "doctor finds a stale line of libibverbs.d, and its suggestion fixes it" {
    echo 'driver gone' >/etc/libibverbs.d/gone.driver
    [[ $(ibv_devices 2>&1) == *Warning* ]]
    run -0 --separate-stderr doctor --json
    [[ -z $stderr && $(check_result "" driver_lines) == "warn driver gone: no such file"* ]]
    chmod 0600 /dev/infiniband/uverbs*
    run -1 --separate-stderr as_nobody "$BUILD/tools/coherdma" doctor
    [[ -z $stderr ]]
    chmod 0666 /dev/infiniband/uverbs*
    run -0 --separate-stderr doctor --json
    expect_fixed_by_suggestion "" driver_lines
    [[ $(ibv_devices 2>&1) != *Warning* ]]
}

@test "doctor warns in a network namespace without the interface" {
    run -0 --separate-stderr unshare --net "$BUILD/tools/coherdma" doctor --json rxe0
    [[ $(check_result rxe0 port) == "warn ACTIVE, but its interface $rxe is not in this network namespace." ]]
}

@test "doctor reports whether network namespaces share devices" {
    run -0 --separate-stderr doctor --json
    [[ $(check_result "" netns) == "ok shared: "* ]]
    rdma system set netns exclusive
    run -0 --separate-stderr doctor --json
    [[ $(check_result "" netns) == "ok exclusive: "* ]]
    run -1 --separate-stderr unshare --net --mount sh -c "mount -t sysfs none /sys
        '$BUILD/tools/coherdma' doctor --json"
    [[ $(check_result "" device) == "fail none in this network namespace"* ]]
    wait_until rdma system set netns shared # succeeds once the other namespace is gone
}

@test "doctor reports a device that does not exist" {
    run -1 --separate-stderr doctor rxe7
    [[ $output == *"there is no rxe7; there are: rxe0, siw0."$'\n      fix: coherdma doctor rxe0\n'* ]]
}
