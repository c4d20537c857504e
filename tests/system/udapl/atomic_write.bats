#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Atomic writes by a uDAPL program on a soft device, served by our plugin and by the stock provider: the method,
# and that a reader never sees a torn value, nor an older one after a newer; and those that are never torn, or
# refused. COUNT: how many, by default 20000; WHOLE=1: a million.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"

setup() {
    driver=${DRIVER:-${SOFTRDMA_DEVICE%%[0-9]*}}
    release=${BUILD:-$BATS_TEST_DIRNAME/../../../build/release}
    export LD_LIBRARY_PATH=$release/udapl:$release/ibverbs-glue
    export COHERDMA_PROVIDER=$release/provider/libcoherdma-rdmav34.so
    export VERBS_LOG_LEVEL=3 VERBS_LOG_FILE=$BATS_TEST_TMPDIR/verbs.log
    export DAT_OVERRIDE=/dev/null
    unset COHERDMA_DAT_LIVE RDMAV_DRIVERS IBV_DRIVERS COHERDMA_EMULATE
    count=${COUNT:-20000}
    [[ ${WHOLE:-} != 1 ]] || count=1000000
}

# method: native in rxe of kernel 6.2 and later.
method() { # OTHER: of the rest
    local major minor
    IFS=.- read -r major minor _ < <(uname -r)
    if [[ $driver == rxe ]] && ((major > 6 || (major == 6 && minor >= 2))); then
        echo native
    else
        echo "$1"
    fi
}

run_program() { # [OPTION...]
    run -0 "$release/tests/system/udapl/sync_programs/sync_atomic_write_dat2" "$@" --count "$count" "$(device_fact "$driver" DEVICE)"
    echo "$output"
}
expect_values_seen() {
    [[ $output =~ ([0-9]+)' values seen of '$count ]]
    ((BASH_REMATCH[1] > 10)) # the reader read meanwhile
}
verify_atomic_writes() {
    run_program
    [[ $output == *"atomic writes: $(method 'inline write')"* ]]
    expect_values_seen
}
verify_never_torn_writes() {
    run_program --never-torn
    if [[ $driver == siw ]]; then
        [[ $output == 'atomic writes: none' ]] # and the program found them refused
    else
        [[ $output == *"atomic writes: $(method 'compare and swap')"* ]]
        expect_values_seen
    fi
}
# Two processes: in each librdmacm opens the device, and the IA.
expect_served_times() { [[ $(grep -c 'is served by coherdma' "$VERBS_LOG_FILE") == "$1" ]]; } # TIMES

@test "atomic writes are whole and in order with our plugin" {
    verify_atomic_writes
    expect_served_times 4
}
@test "atomic writes are whole and in order with the stock provider" {
    COHERDMA_PROVIDER=/nowhere verify_atomic_writes
    expect_served_times 0
}
# bats test_tags=gate
@test "atomic writes are never torn, or refused, with our plugin" {
    verify_never_torn_writes
    expect_served_times 4
}
@test "atomic writes are never torn, or refused, with the stock provider" {
    COHERDMA_PROVIDER=/nowhere verify_never_torn_writes
    expect_served_times 0
}
