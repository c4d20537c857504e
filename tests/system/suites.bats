#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The plugin as it was built here, byte for byte, in guests of later Debian releases, each with its own
# libibverbs, perftest and kernel. They have no bats, only what their roots hold.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/lib.bash"

# What runs in the guest: $1 is the device, $2 the driver, $3 whether it is ours to serve.
inside='
    sha256sum libcoherdma-rdmav34.so
    readlink -f /usr/lib/*/libibverbs.so.1
    [ "$3" = ours ] && export RDMAV_DRIVERS=$PWD/libcoherdma
    export VERBS_LOG_LEVEL=3 VERBS_LOG_FILE=/run/verbs.log
    listening() {
        for try in 1 2 3 4 5 6 7 8 9; do rdma resource show cm_id | grep -q LISTEN && break; sleep 1; done
        sleep 1
    }
    rping -s -a $HOST1 -C 100 -V & listening
    rping -c -a $HOST1 -C 100 -V -v && wait $! && echo rping is well
    for try in 1 2 3; do
        ib_write_bw -F -R -d $1 -n 200 -s 4096 & listening
        timeout 30 ib_write_bw -F -R -d $1 -n 200 -s 4096 $HOST1 && wait $! && echo ib_write_bw is well && break
        kill $!; wait $!
    done
    cat /run/verbs.log'

# later SUITE LIBRARY DRIVER: rping and perftest in it, with a libibverbs of such a name.
later() {
    local who=stock
    [[ " $OURS " != *" $3 "* ]] || who=ours
    cd "$BUILD/release/provider"
    run -0 "$BATS_TEST_DIRNAME/../../scripts/softrdma" run -q --suite "$1" --driver "$3" -- \
        sh -c "$inside" sh "${3}0" "$3" "$who"
    [[ ${lines[0]} == "$(sha256sum libcoherdma-rdmav34.so)" ]]
    [[ ${lines[1]} == *"/libibverbs.so.1."$2 ]]
    [[ $(grep -c '^ping data' <<<"$output") == 100 ]]
    [[ $output == *'rping is well'*'ib_write_bw is well'* ]]
    [[ $who == stock ]] || (($(grep -c "${3}0 is served by coherdma" <<<"$output") >= 4))
}

@test "trixie: rping and ib_write_bw over rxe" { later trixie '*.56.*' rxe; }
@test "trixie: rping and ib_write_bw over siw" { later trixie '*.56.*' siw; }
@test "sid: rping and ib_write_bw over rxe" { later sid '*.6[0-9].*' rxe; }
@test "sid: rping and ib_write_bw over siw" { later sid '*.6[0-9].*' siw; }
