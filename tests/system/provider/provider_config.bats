#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Which plugin serves a soft device: the stock one until ours is chosen for a process or for the system, and
# again after that is undone. What is installed here is gone with the guest.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"

setup_file() {
    cmake --install "$BUILD" --prefix /usr >/dev/null
    ldconfig
}
setup() {
    rxe=$(device_fact rxe DEVICE)
    export VERBS_LOG_LEVEL=3 VERBS_LOG_FILE=$BATS_TEST_TMPDIR/verbs.log
    unset RDMAV_DRIVERS IBV_DRIVERS COHERDMA_PROVIDER
    touch "$VERBS_LOG_FILE"
    before=$(checksums)
}
teardown() {
    coherdma disable
    [[ $(checksums) == "$before" ]]
}

checksums() { find /etc -maxdepth 2 -path '*libibverbs*' -printf '%p %y %m %u %g ' -exec sha256sum {} ';' 2>&1 | sort; }
served() { count_served rxe && echo "$served_times"; }
status() { coherdma status --json | jq -r "$1"; }
rxe_status() { status ".devices[] | select(.name == \"$rxe\") | $1"; }

@test "rxe: after installation the stock plugin still serves" {
    run_rping rxe
    [[ $(served) == 0 && $(status .system.state) == off ]]
    [[ $(rxe_status .plugin) == */librxe-rdmav*.so && $(rxe_status .coherdma) == false ]]
    run -0 coherdma status
    [[ $output == *"$rxe: "*'/librxe-rdmav'*'by line 1 of /etc/libibverbs.d/rxe.driver'*'System setting: off'* ]]
}

@test "rxe: coherdma enable has its plugin serve all programs, until coherdma disable" {
    run -0 coherdma enable
    [[ ${lines[0]} == '+ /etc/libibverbs.d/rxe.driver:2: driver '*'/lib/libibverbs/libcoherdma' ]]
    run_rping rxe
    [[ $(served) == 2 ]]
    run -0 --separate-stderr ibv_devinfo -d "$rxe"
    [[ -z $stderr && $(served) == 3 ]]
    [[ $(rxe_status .plugin) == */lib/libibverbs/libcoherdma-rdmav*.so && $(status .system.state) == on ]]
    [[ $(rxe_status .reason) == system && $(rxe_status .explanation) == 'line 2 of /etc/libibverbs.d/rxe.driver'* ]]
    run -0 coherdma doctor --json
    [[ $(jq -r '.checks[] | select(.id == "selection") | .state' <<<"$output") == ok ]]
    [[ $(jq -r ".checks[] | select(.id == \"served\" and .device == \"$rxe\") | .evidence" <<<"$output") == */libcoherdma-rdmav* ]]

    run -0 coherdma disable
    [[ $(checksums) == "$before" ]]
    : >"$VERBS_LOG_FILE"
    run_rping rxe
    [[ $(served) == 0 && $(rxe_status .coherdma) == false ]]
}

# served_in_order FILE...: how often ours serves rxe if the folder's files are made in this order.
served_in_order() {
    local copy=$BATS_TEST_TMPDIR/drivers
    cp -a /etc/libibverbs.d/. "$copy"
    mount -t tmpfs none /etc/libibverbs.d
    for file in "$@"; do cp "$copy/$file" /etc/libibverbs.d; done
    : >"$VERBS_LOG_FILE"
    ibv_devinfo -d "$rxe" >/dev/null
    umount /etc/libibverbs.d
    served
}

@test "rxe: after coherdma enable its plugin serves, whatever the order of the files of libibverbs.d" {
    coherdma enable
    [[ $(served_in_order rxe.driver mlx5.driver siw.driver) == 1 ]]
    [[ $(served_in_order siw.driver mlx5.driver rxe.driver) == 1 ]]
    coherdma disable
    echo 'driver /usr/lib/libibverbs/libcoherdma' >/etc/libibverbs.d/coherdma.driver
    first=$(served_in_order rxe.driver coherdma.driver) last=$(served_in_order coherdma.driver rxe.driver)
    [[ $(status .system.state) == partial ]]
    rm /etc/libibverbs.d/coherdma.driver
    ((first + last == 1))
}

@test "coherdma enable reports that libibverbs.d is on another file system" {
    mount -t tmpfs none /etc/libibverbs.d
    echo 'driver rxe' >/etc/libibverbs.d/rxe.driver
    run -1 --separate-stderr coherdma enable
    umount /etc/libibverbs.d
    [[ -z $output && $stderr == *'cross-device'*'mount'* ]]
}

@test "coherdma enable reports a read-only file system and changes nothing" {
    mount --bind /etc /etc
    mount -o remount,bind,ro /etc
    run -1 --separate-stderr coherdma enable
    umount /etc
    [[ -z $output && $stderr == *'Read-only file system'* ]]
}

@test "siw: rping verifies 100 rounds after coherdma enable" {
    coherdma enable
    run_rping siw
}

@test "rxe: coherdma enable writes a short line for a plugin in libibverbs' own folder" {
    folder=$(dirname "$(rxe_status .plugin)")
    cp -a /usr/lib/libibverbs/libcoherdma-rdmav*.so "$folder"
    COHERDMA_PROVIDER=$folder/libcoherdma-rdmav34.so coherdma enable
    [[ $(sed -n 2p /etc/libibverbs.d/siw.driver) == 'driver coherdma' ]]
    run_rping rxe
    [[ $(served) == 2 && $(rxe_status .plugin) == "$folder"/libcoherdma-rdmav*.so ]]
    rm "$folder"/libcoherdma-rdmav*.so
    run -1 coherdma status
    [[ $output == *'System setting: stale: '* && $output == *'/librxe-rdmav'* ]]
}

@test "coherdma status reports that only one of the two driver files has the line" {
    echo 'driver /usr/lib/libibverbs/libcoherdma' >>/etc/libibverbs.d/siw.driver
    run -1 coherdma status
    [[ $output == *'System setting: partial: '*'rxe.driver'* ]]
}

@test "rxe: RDMAV_DRIVERS overrides the system setting" {
    coherdma enable
    export RDMAV_DRIVERS=rxe
    ibv_devinfo -d "$rxe"
    [[ $(served) == 0 ]]
    [[ $(rxe_status .reason) == environment && $(rxe_status .overridden) == true && $(status .system.state) == on ]]
    coherdma disable
    export RDMAV_DRIVERS=/usr/lib/libibverbs/libcoherdma
    ibv_devinfo -d "$rxe"
    [[ $(served) == 1 ]]
    [[ $(rxe_status .reason) == environment && $(rxe_status .coherdma) == true && $(status .system.state) == off ]]
}

@test "rxe: coherdma status reports a preloaded plugin" {
    export LD_PRELOAD=/usr/lib/libibverbs/libcoherdma-rdmav34.so
    [[ $(rxe_status .reason) == preloaded && $(rxe_status .coherdma) == true ]]
}

@test "rxe: coherdma_use_provider has its plugin serve the calling program only" {
    run -0 "$BUILD/tests/system/provider/use_provider" "$rxe"
    [[ $output == refused:*'/libibverbs/libcoherdma-rdmav34.so: No such file'* && $(served) == 0 ]] # not installed there
    cp "$BUILD/tests/system/provider/use_provider" "$BATS_TEST_TMPDIR/installed"
    run -0 env LD_PRELOAD=/usr/lib/libcoherdma.so.1 "$BATS_TEST_TMPDIR/installed" "$rxe"
    [[ $output == loaded && $(served) == 1 ]]
    COHERDMA_PROVIDER=$BUILD/provider/libcoherdma-rdmav34.so run -0 "$BUILD/tests/system/provider/use_provider" "$rxe"
    [[ $output == loaded && $(served) == 2 ]]
    RDMAV_DRIVERS=rxe run -0 "$BUILD/tests/system/provider/use_provider" "$rxe"
    [[ $output == refused:*'RDMAV_DRIVERS=rxe in the environment'* && $(served) == 2 ]]
    ibv_devinfo -d "$rxe"
    [[ $(served) == 2 ]]
}
