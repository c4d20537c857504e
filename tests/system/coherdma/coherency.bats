#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# coherdma show and explain with soft devices. Needs a softrdma guest with both drivers.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"

tool=$BUILD/tools/coherdma
conf=$BATS_TEST_TMPDIR/coherdma.conf

# Restores what tests remove.
teardown() {
    chmod 0666 /dev/infiniband/uverbs*
    ip address replace "$(device_fact siw ADDRESS)/24" dev "$(device_fact siw NETDEV)"
}

@test "show prints a correct line for each device" {
    run -0 --separate-stderr "$tool"
    [[ -z $stderr && ${#lines[@]} == 3 ]]
    [[ ${lines[0]} =~ ^DEVICE\ +TRANSPORT\ +COHERENCY\ +EVIDENCE\ +STRENGTH\ +LINE\ +INSTRUCTIONS ]]
    [[ ${lines[1]} =~ ^rxe0\ +RoCE\ +coherent\ +software\ +kernel\ +[0-9]+\ +none\ needed ]]
    [[ ${lines[2]} =~ ^siw0\ +iWARP\ +coherent\ +software\ +kernel\ +[0-9]+\ +none\ needed ]]
    for line in "${lines[@]}"; do ((${#line} < 80)); done
    run -0 "$tool" show siw0
    [[ ${#lines[@]} == 2 && ${lines[1]} == siw0* ]]
}

@test "show --json has the evidence" {
    run -0 --separate-stderr "$tool" show --json
    [[ $(jq -r '.devices[] | [.name, .driver, .source, .value] | join(" ")' <<<"$output") == \
        $'rxe0 rxe RDMA netlink driver rxe\nsiw0 siw RDMA netlink driver siw' ]]
    [[ $(jq '.cpu.line_size' <<<"$output") == $(getconf LEVEL1_DCACHE_LINESIZE) ]]
}

@test "show: configuration file and environment override the evidence" {
    printf '[driver:rxe]\ncoherent = no\n' >"$conf"
    export COHERDMA_CONFIG=$conf
    run -0 "$tool"
    [[ ${lines[1]} =~ ^rxe0\ +RoCE\ +non-coherent\ +override\ +assumed\ +[0-9]+\ +cl(wb|flush) ]]
    [[ ${lines[2]} =~ coherent\ +software ]]
    COHERDMA_COHERENT='rxe0=auto,siw0=no' run -0 "$tool"
    [[ ${lines[1]} =~ \ coherent\ +software && ${lines[2]} =~ non-coherent\ +override ]]
    COHERDMA_CACHE=clflush run -0 "$tool" show rxe0
    [[ ${lines[1]} =~ \ clflush$ ]]
}

@test "show reports an error in the configuration with file and line" {
    printf '[*]\n\ncoherent = mostly\n' >"$conf"
    COHERDMA_CONFIG=$conf run -1 --separate-stderr "$tool" show
    [[ -z $output && $stderr == "coherdma: $conf:3: 'mostly' is not yes, no or auto" ]]
    COHERDMA_CONFIG=$conf run -1 "$tool" explain rxe0
}

@test "show works without permission to open the device" {
    chmod 0600 /dev/infiniband/uverbs*
    run -0 --separate-stderr as_nobody "$tool" show rxe0
    [[ $output == *coherent*software* ]]
}

@test "explain prints every rule, the deciding one, and its evidence" {
    run -0 --separate-stderr "$tool" explain siw0
    [[ ${lines[0]} == 'siw0 is coherent: the CPU moves the data of a software device (RDMA netlink:' ]]
    [[ $output == *$'\n> software      coherent     kernel '* ]]
    for rule in override bounce registration architecture devicetree kernel acpi pcie queues; do
        [[ $output == *$'\n  '"$rule "* ]]
    done
    for line in "${lines[@]}"; do ((${#line} < 80)); done
    run -0 --separate-stderr "$tool" explain rxe0 --json
    [[ $(jq -r '.rules[] | select(.decided) | .rule' <<<"$output") == software ]]
    # The kernel's report agrees, if it makes one.
    if (($(uname -r | cut -d. -f1) >= 7)); then
        [[ $(jq -r '.rules[] | select(.rule == "registration") | .coherency + " " + .value' \
            <<<"$output") == 'coherent success' ]]
    fi
}

@test "explain --probe finds both devices coherent" {
    for device in rxe0 siw0; do
        run -0 --separate-stderr "$tool" explain "$device" --probe --json
        [[ $(jq -c .probe <<<"$output") == \
            '{"coherency":"coherent","strength":"measured","rounds":8,"lines":8192,"device_stale":0,"cpu_stale":0}' ]]
    done
}

@test "explain --probe reports that a device has no address" {
    local netdev
    netdev=$(device_fact siw NETDEV)
    ip address flush dev "$netdev"
    run -1 --separate-stderr "$tool" explain siw0 --probe
    [[ $stderr == *'cannot probe siw0: looking for an address of the device'* ]]
}
