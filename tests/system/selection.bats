#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Who serves a soft device: the stock plugin until somebody chooses ours, for a process or for the
# system, and again when that is undone. What is installed here vanishes with the guest.
# Run by ci/stages: softrdma run --driver both -- bats tests/system/selection.bats

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/lib.bash"

setup_file() {
    cmake --install "$BUILD/release" --prefix /usr >/dev/null
    ldconfig
}
setup() {
    rxe=$(of rxe DEVICE)
    export VERBS_LOG_LEVEL=3 VERBS_LOG_FILE=$BATS_TEST_TMPDIR/verbs.log
    unset RDMAV_DRIVERS IBV_DRIVERS COHERDMA_PROVIDER
    touch "$VERBS_LOG_FILE"
    before=$(sums)
}
teardown() {
    coherdma disable
    [[ $(sums) == "$before" ]]
}

sums() { find /etc -maxdepth 2 -path '*libibverbs*' -printf '%p %y %m %u %g ' -exec sha256sum {} ';' 2>&1 | sort; }
served() { grep -c "$rxe is served by coherdma" "$VERBS_LOG_FILE"; }
status() { coherdma status --json | jq -r "$1"; }
of_rxe() { status ".devices[] | select(.name == \"$rxe\") | $1"; }

@test "to install it changes nothing" {
    pinged rxe
    [[ $(served) == 0 && $(status .system.state) == off ]]
    [[ $(of_rxe .plugin) == */librxe-rdmav*.so && $(of_rxe .coherdma) == false ]]
    run -0 coherdma status
    [[ $output == *"$rxe: "*'/librxe-rdmav'*'by line 1 of /etc/libibverbs.d/rxe.driver'*'System setting: off'* ]]
}

@test "coherdma enable: programs that know nothing of it are served by ours, until disable" {
    run -0 coherdma enable
    [[ ${lines[0]} == '+ /etc/libibverbs.d/rxe.driver:2: driver '*'/lib/libibverbs/libcoherdma' ]]
    pinged rxe
    [[ $(served) == 2 ]]
    run -0 --separate-stderr ibv_devinfo -d "$rxe"
    [[ -z $stderr && $(served) == 3 ]]
    [[ $(of_rxe .plugin) == */lib/libibverbs/libcoherdma-rdmav*.so && $(status .system.state) == on ]]
    [[ $(of_rxe .because) == system && $(of_rxe .words) == 'line 2 of /etc/libibverbs.d/rxe.driver'* ]]
    run -0 coherdma doctor --json
    [[ $(jq -r '.checks[] | select(.id == "selection") | .state' <<<"$output") == ok ]]
    [[ $(jq -r ".checks[] | select(.id == \"served\" and .device == \"$rxe\") | .evidence" <<<"$output") == */libcoherdma-rdmav* ]]

    run -0 coherdma disable
    [[ $(sums) == "$before" ]]
    : >"$VERBS_LOG_FILE"
    pinged rxe
    [[ $(served) == 0 && $(of_rxe .coherdma) == false ]]
}

# served_in_order FILE...: whether ours serves rxe if the folder's files were made in this order
served_in_order() {
    local kept=$BATS_TEST_TMPDIR/drivers
    cp -a /etc/libibverbs.d/. "$kept"
    mount -t tmpfs none /etc/libibverbs.d
    for file in "$@"; do cp "$kept/$file" /etc/libibverbs.d; done
    : >"$VERBS_LOG_FILE"
    ibv_devinfo -d "$rxe" >/dev/null
    umount /etc/libibverbs.d
    served || true
}

@test "coherdma enable: the order of the folder does not matter, as it does for a file of its own" {
    coherdma enable
    [[ $(served_in_order rxe.driver mlx5.driver siw.driver) == 1 ]]
    [[ $(served_in_order siw.driver mlx5.driver rxe.driver) == 1 ]]
    coherdma disable
    echo 'driver /usr/lib/libibverbs/libcoherdma' >/etc/libibverbs.d/coherdma.driver
    one=$(served_in_order rxe.driver coherdma.driver) other=$(served_in_order coherdma.driver rxe.driver)
    [[ $(status .system.state) == half ]]
    rm /etc/libibverbs.d/coherdma.driver
    ((one + other == 1))
}

@test "coherdma enable: a folder that is mounted from elsewhere is refused in words" {
    mount -t tmpfs none /etc/libibverbs.d
    echo 'driver rxe' >/etc/libibverbs.d/rxe.driver
    run -1 --separate-stderr coherdma enable
    umount /etc/libibverbs.d
    [[ -z $output && $stderr == *'cross-device'*'mount'* ]]
}

@test "coherdma enable: a file system that is read-only is refused, and nothing changes" {
    mount --bind /etc /etc
    mount -o remount,bind,ro /etc
    run -1 --separate-stderr coherdma enable
    umount /etc
    [[ -z $output && $stderr == *'Read-only file system'* ]]
}

@test "coherdma enable: the other device goes on working" {
    coherdma enable
    pinged siw
}

@test "coherdma enable: where libibverbs looks itself, the line is short" {
    folder=$(dirname "$(of_rxe .plugin)")
    cp -a /usr/lib/libibverbs/libcoherdma-rdmav*.so "$folder"
    COHERDMA_PROVIDER=$folder/libcoherdma-rdmav34.so coherdma enable
    [[ $(sed -n 2p /etc/libibverbs.d/siw.driver) == 'driver coherdma' ]]
    pinged rxe
    [[ $(served) == 2 && $(of_rxe .plugin) == "$folder"/libcoherdma-rdmav*.so ]]
    rm "$folder"/libcoherdma-rdmav*.so
    run -1 coherdma status
    [[ $output == *'System setting: stale: '* && $output == *'/librxe-rdmav'* ]]
}

@test "one of the two files only: which plugin serves is as it is, but status says so" {
    echo 'driver /usr/lib/libibverbs/libcoherdma' >>/etc/libibverbs.d/siw.driver
    run -1 coherdma status
    [[ $output == *'System setting: half: '*'rxe.driver'* ]]
}

@test "an environment variable goes before the setting of the system" {
    coherdma enable
    export RDMAV_DRIVERS=rxe
    ibv_devinfo -d "$rxe"
    [[ $(served) == 0 ]]
    [[ $(of_rxe .because) == environment && $(of_rxe .overridden) == true && $(status .system.state) == on ]]
    coherdma disable
    export RDMAV_DRIVERS=/usr/lib/libibverbs/libcoherdma
    ibv_devinfo -d "$rxe"
    [[ $(served) == 1 ]]
    [[ $(of_rxe .because) == environment && $(of_rxe .coherdma) == true && $(status .system.state) == off ]]
}

@test "a plugin that is preloaded is seen" {
    export LD_PRELOAD=/usr/lib/libibverbs/libcoherdma-rdmav34.so
    [[ $(of_rxe .because) == preloaded && $(of_rxe .coherdma) == true ]]
}

@test "a program that calls coherdma_use_provider is served by ours, others are not" {
    run -0 "$BUILD/release/tests/use_provider" "$rxe"
    [[ $output == refused:*'/libibverbs/libcoherdma-rdmav34.so: No such file'* && $(served) == 0 ]] # not installed there
    cp "$BUILD/release/tests/use_provider" "$BATS_TEST_TMPDIR/installed"
    run -0 env LD_PRELOAD=/usr/lib/libcoherdma.so.1 "$BATS_TEST_TMPDIR/installed" "$rxe"
    [[ $output == loaded && $(served) == 1 ]]
    COHERDMA_PROVIDER=$BUILD/release/provider/libcoherdma-rdmav34.so run -0 "$BUILD/release/tests/use_provider" "$rxe"
    [[ $output == loaded && $(served) == 2 ]]
    RDMAV_DRIVERS=rxe run -0 "$BUILD/release/tests/use_provider" "$rxe"
    [[ $output == refused:*'RDMAV_DRIVERS=rxe in the environment'* && $(served) == 2 ]]
    ibv_devinfo -d "$rxe"
    [[ $(served) == 2 ]]
}
