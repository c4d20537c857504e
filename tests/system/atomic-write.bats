#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Atomic writes as a program of uDAPL does them on the device that is there, served by our plugin and by
# the stock provider: which way it is, and that nobody ever sees half of one, or an older one after a
# newer. COUNT: how many, of 20000; WHOLE=1: a million.
# Run by ci/stages: softrdma run --driver rxe|siw -- bats tests/system/atomic-write.bats

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/lib.bash"

setup() {
    driver=${DRIVER:-${SOFTRDMA_DEVICE%%[0-9]*}}
    release=${BUILD:-$BATS_TEST_DIRNAME/../../build}/release
    export LD_LIBRARY_PATH=$release/udapl:$release/ibverbs-glue
    export COHERDMA_PROVIDER=$release/provider/libcoherdma-rdmav34.so
    export VERBS_LOG_LEVEL=3 VERBS_LOG_FILE=$BATS_TEST_TMPDIR/verbs.log
    export DAT_OVERRIDE=/dev/null
    unset COHERDMA_DAT_LIVE RDMAV_DRIVERS IBV_DRIVERS COHERDMA_EMULATE
    count=${COUNT:-20000}
    [[ ${WHOLE:-} != 1 ]] || count=1000000
}

# rxe's kernel has them from 6.2 on; to iWARP eight bytes of a request's own do it.
way() {
    local major minor
    IFS=.- read -r major minor _ < <(uname -r)
    if [[ $driver == rxe ]] && ((major > 6 || (major == 6 && minor >= 2))); then
        echo native
    else
        echo 'inline write'
    fi
}

written() { # nobody has seen what was not
    run -0 timeout 900 "$release/tests/system/situations/situation_atomic_write_dat2" --count "$count" "$(of "$driver" DEVICE)"
    echo "$output"
    [[ $output == *"atomic writes: $(way)"* && $output =~ ([0-9]+)' values seen of '$count ]]
    ((BASH_REMATCH[1] > 10)) # it was looked at meanwhile
}
served() { [[ $(grep -c 'is served by coherdma' "$VERBS_LOG_FILE") == "$1" ]]; } # TIMES

@test "atomic writes are whole, and in order, with our plugin" {
    written
    served 2
}
@test "atomic writes are whole, and in order, with the stock provider" {
    COHERDMA_PROVIDER=/nowhere written
    served 0
}
