#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# An arm64 guest, seen from outside: it has no bats, only what its root holds.

bats_require_minimum_version 1.5.0

guest() { "$BATS_TEST_DIRNAME/../../scripts/softrdma" run -q --arch arm64 "$@"; }

@test "arm64: rping over rxe, in sight of the caller's files" {
    cd "$BATS_TEST_DIRNAME"
    run -0 guest -- sh -c 'uname -m; ls arm64.bats; rping -s -a $HOST1 -C 20 -V &
        for try in 1 2 3 4 5 6 7 8 9; do sleep 1; rdma resource show cm_id | grep -q LISTEN && break; done
        rping -c -a $HOST1 -C 20 -V -v; true' # judged by what it prints: see tripped in lib.bash
    [[ ${lines[0]} == aarch64 ]]
    [[ ${lines[1]} == arm64.bats ]]
    [[ $(grep -c '^ping data' <<<"$output") == 20 ]]
}

@test "arm64: the command's status passes through" {
    run -33 guest -- sh -c 'exit 33'
}

# plugin: ours for arm64, in a folder of its own that is then the current one: the guest sees no other
# of ours.
plugin() {
    source "$BATS_TEST_DIRNAME/arm64.bash"
    build_for_arm64 coherdma_provider
    cd "$BATS_TEST_TMPDIR" || return
    cp "$built/provider/libcoherdma-rdmav34.so" .
}

@test "arm64: rping and ib_write_bw over rxe with our plugin" {
    plugin
    run -0 guest -- sh -c 'export RDMAV_DRIVERS=$PWD/libcoherdma VERBS_LOG_LEVEL=3 VERBS_LOG_FILE=/run/verbs.log
        listening() {
            for try in 1 2 3 4 5 6 7 8 9; do rdma resource show cm_id | grep -q LISTEN && break; sleep 1; done
            sleep 1
        }
        uname -m
        timeout 600 rping -s -a $HOST1 -C 100 -V & listening
        timeout 600 rping -c -a $HOST1 -C 100 -V -v; wait $!
        for try in 1 2 3; do
            timeout 300 ib_write_bw -F -R -d rxe0 -n 200 -s 4096 & listening
            timeout 240 ib_write_bw -F -R -d rxe0 -n 200 -s 4096 $HOST1 && wait $! && echo ib_write_bw is well && break
            kill $!; wait $!
        done
        cat /run/verbs.log'
    [[ ${lines[0]} == aarch64 ]]
    [[ $(grep -c '^ping data' <<<"$output") == 100 ]]
    [[ $output == *'server DISCONNECT'*'ib_write_bw is well'* ]]
    (($(grep -c 'rxe0 is served by coherdma' <<<"$output") >= 4))
}
