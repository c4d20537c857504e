#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# coherdma emulate without a soft device: it uses the lab, or suggests a command.

# shellcheck disable=SC2154 # bats' run sets stderr
bats_require_minimum_version 1.5.0
tool=$BUILD/tools/coherdma
mailbox=$BUILD/examples/mailbox

setup() {
    [[ ! -e /sys/class/infiniband ]] || skip 'this machine has RDMA'
    cd "$BATS_TEST_TMPDIR" || return
    export TMPDIR=$BATS_TEST_TMPDIR COHERDMA_PROVIDER=$BUILD/provider/libcoherdma-rdmav34.so
    export COHERDMA_SOFTRDMA=$BATS_TEST_DIRNAME/../../../scripts/softrdma
}
teardown() { [[ -z $(find "$TMPDIR" -maxdepth 1 -name 'coherdma-emulate.*') ]]; }

@test "without a device the command runs in the lab, and its findings are reported" {
    run -1 --separate-stderr "$tool" emulate --driver siw -m stale,poison --json --output report -- \
        sh -c "'$mailbox' --skip-sync write \$SOFTRDMA_ADDRESS"
    [[ $stderr == 'coherdma: there is no soft device'*'in the lab: '*'softrdma run --driver siw'* ]]
    [[ $output == *"the owner got '', not 'question 1'"* ]]
    [[ $(jq -r '.runs[].mode' report | xargs) == 'stale poison' ]]
    jq -e '.places[] | select(.kind == "stale" and .device == "siw0" and .by.stale and .by.poison)' report
}

@test "without softrdma: status 77 and a suggestion" {
    run -77 --separate-stderr env -u COHERDMA_SOFTRDMA PATH=/nowhere "$tool" emulate -- true
    [[ $stderr == *'no softrdma to make one'*'next: COHERDMA_SOFTRDMA='* && -z $output ]]
    COHERDMA_SOFTRDMA=/etc/passwd run -77 --separate-stderr "$tool" emulate -- true
    [[ $stderr == *'COHERDMA_SOFTRDMA=/etc/passwd'*'next: unset COHERDMA_SOFTRDMA'* ]]
    run -77 --separate-stderr "$tool" emulate --here -- true
    [[ $stderr == *'next: sudo softrdma up, or without --here'* ]]
}

@test "softrdma is found in PATH" {
    mkdir bin
    printf '#!/bin/sh\necho "$@" | sed "s,%s/[^ ]*,LOGS,"\n' "$TMPDIR" >bin/softrdma
    chmod +x bin/softrdma
    run -77 --separate-stderr env -u COHERDMA_SOFTRDMA PATH="$PWD/bin:$PATH" "$tool" emulate -m stale,poison -- a b
    [[ ${lines[0]} == 'run --driver rxe --write LOGS -- a b' ]]
    [[ ${lines[1]} == 'run --driver rxe --write LOGS -q -- a b' ]]
}

@test "without the provider: status 77 and a suggestion" {
    COHERDMA_PROVIDER=/nowhere/libcoherdma-rdmav34.so run -77 --separate-stderr "$tool" emulate -- true
    [[ $stderr == *'cannot read /nowhere/libcoherdma-observers-rdmav34.so: No such file'*'next: install it'* ]]
    COHERDMA_PROVIDER=libcoherdma-rdmav34.so run -77 --separate-stderr "$tool" emulate -- true
    [[ $stderr == *'requires an absolute path'* ]]
}
