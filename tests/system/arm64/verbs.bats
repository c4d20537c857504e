#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# An arm64 guest, seen from outside: it has no bats and sees only the current folder.

bats_require_minimum_version 1.5.0
lib=$BATS_TEST_DIRNAME/../lib

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    cp "$lib/is_listening" .
}
run_in_guest() { "$BATS_TEST_DIRNAME/../../../scripts/softrdma" run -q --arch arm64 -- sh -c "$(<"$lib/guest.sh")"$'\n'"$1"; }

@test "arm64: rping over rxe verifies 20 rounds, in the caller's folder" {
    # shellcheck disable=SC2016 # for the guest's shell
    run -0 run_in_guest 'uname -m; ls; guest_rping $HOST1 20'
    [[ ${lines[0]} == aarch64 ]]
    [[ ${lines[1]} == is_listening ]]
    [[ $(grep -c '^ping data' <<<"$output") == 20 ]]
}

@test "arm64: the status of the command passes through" {
    run -33 run_in_guest 'exit 33'
}

# copy_plugin: ours for arm64, into the current folder: the guest sees no other of ours.
copy_plugin() {
    source "$BATS_TEST_DIRNAME/arm64.bash"
    build_for_arm64 coherdma_provider
    cp "$built/provider/libcoherdma-rdmav34.so" .
}

@test "arm64: rping and ib_write_bw over rxe complete with our plugin" {
    copy_plugin
    # shellcheck disable=SC2016 # for the guest's shell
    run -0 run_in_guest 'export RDMAV_DRIVERS=$PWD/libcoherdma VERBS_LOG_LEVEL=3 VERBS_LOG_FILE=/run/verbs.log
        uname -m
        guest_rping $HOST1 100
        guest_perftest "ib_write_bw -F -R -d rxe0 -n 200 -s 4096" $HOST1 && echo ib_write_bw is well
        cat /run/verbs.log'
    [[ ${lines[0]} == aarch64 ]]
    [[ $(grep -c '^ping data' <<<"$output") == 100 ]]
    [[ $output == *'server DISCONNECT'*'ib_write_bw is well'* ]]
    (($(grep -c 'rxe0 is served by coherdma' <<<"$output") >= 4))
}
