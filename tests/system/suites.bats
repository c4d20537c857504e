#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The plugin as it was built here, byte for byte, in guests of each Debian release, which have their
# own libibverbs, perftest and kernel. They have no bats, only what their roots hold.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/lib.bash"

# What runs in the guest, with a device of each driver; OURS is in its environment.
# shellcheck disable=SC2016 # for the guest's shell
inside='
    sha256sum libcoherdma-rdmav34.so
    readlink -f /usr/lib/*/libibverbs.so.1
    export VERBS_LOG_LEVEL=3 VERBS_LOG_FILE=/run/verbs.log
    listening() {
        for try in 1 2 3 4 5 6 7 8 9; do rdma resource show cm_id | grep -q LISTEN && break; sleep 1; done
        sleep 1
    }
    tried() { # DRIVER ADDRESS
        case " $OURS " in *" $1 "*) export RDMAV_DRIVERS=$PWD/libcoherdma ;; *) unset RDMAV_DRIVERS ;; esac
        # When all is done, that of rdma-core 59 and later may wait for itself for ever.
        timeout 90 rping -s -a $2 -C 100 -V 2>/run/served & listening
        timeout 60 stdbuf -oL rping -c -a $2 -C 100 -V -v
        wait $!; grep "server DISCONNECT" /run/served && echo "$1: rping is well"
        for try in 1 2 3; do
            timeout 60 ib_write_bw -F -R -d ${1}0 -n 200 -s 4096 & listening
            timeout 30 ib_write_bw -F -R -d ${1}0 -n 200 -s 4096 $2 && wait $! && echo "$1: ib_write_bw is well" && break
            kill $!; wait $!
        done
    }
    tried rxe $SOFTRDMA_RXE_ADDRESS
    tried siw $SOFTRDMA_SIW_ADDRESS
    cat /run/verbs.log'

# within SUITE LIBRARY: rping and perftest there, with a libibverbs whose name ends like that.
within() {
    local driver
    export OURS
    cd "$BUILD/release/provider" || return
    run -0 in_suite --suite "$1" --driver both -- sh -c "$inside"
    [[ ${lines[0]} == "$(sha256sum libcoherdma-rdmav34.so)" ]]
    # shellcheck disable=SC2053 # a pattern
    [[ ${lines[1]} == */libibverbs.so.1.*.$2 ]]
    [[ $(grep -c '^ping data' <<<"$output") == 200 ]]
    for driver in rxe siw; do
        [[ $output == *"$driver: rping is well"*"$driver: ib_write_bw is well"* ]]
        [[ " $OURS " != *" $driver "* ]] || (($(grep -c "${driver}0 is served by coherdma" <<<"$output") >= 4))
    done
}

@test "bookworm: rping and ib_write_bw over rxe and siw" { within bookworm '44.*'; }
@test "trixie: rping and ib_write_bw over rxe and siw" { within trixie '56.*'; }
@test "sid: rping and ib_write_bw over rxe and siw" { within sid '6[0-9].*'; }
