#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# datping and datinfo know uDAPL by its headers alone: the same on OFED's libraries, and one side on
# OFED's provider with the other on coherdma's.
# Run by ci/stages: softrdma run --driver both -- bats tests/system/datping-stock.bats

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/datping.bash"

setup() {
    mkdir "$BATS_TEST_TMPDIR/stock"
    ln -s "$(ldconfig -p | sed -n 's/.*libdat2\.so\.2 .*x86-64.* => //p' | head -n 1)" "$BATS_TEST_TMPDIR/stock/libdat2.so.2"
    export LD_LIBRARY_PATH=$BATS_TEST_TMPDIR/stock:$BUILD/release/udapl
    export DAT_OVERRIDE=$BATS_TEST_TMPDIR/dat.conf
    for driver in rxe siw; do
        echo "$(of $driver DEVICE) u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 \"$(of $driver NETDEV) 0\" \"\""
    done >"$DAT_OVERRIDE"
}

@test "rxe: datping over OFED's libraries moves data by every mode" { whole rxe; }
@test "siw: datping over OFED's libraries moves data by every mode" { whole siw; }
@test "rxe: over OFED's libraries, a bit that was changed is seen" { flipped rxe pingpong; }
@test "siw: over OFED's libraries, a bit that was changed is seen" { flipped siw pingpong; }
@test "rxe: over OFED's libraries, servers that lie or die are told" { each_told rxe; }
# Of OFED's libraries on siw a connection was once refused, on a busy machine, though its server waited.
@test "siw: over OFED's libraries, servers that lie or die are told" {
    # shellcheck disable=SC2034 # for bats
    BATS_TEST_RETRIES=2
    each_told siw
}
@test "rxe: over OFED's libraries, a server survives clients of every kind" { survives_all rxe; }
@test "siw: over OFED's libraries, a server survives clients of every kind" { survives_all siw; }

between() { # DRIVER: OFED's provider and ours
    "$info" --conf >"$BATS_TEST_TMPDIR/ours.conf"
    serve "$1"
    DAT_OVERRIDE=$BATS_TEST_TMPDIR/ours.conf run -0 --separate-stderr "$ping" "${!1}" -m all -c 10 -S 5000 --json
    [[ $(jq -c '[.good, .library]' <<<"$output") == '[true,"'*'libdaplcoherdma.so.2"]' ]]
    kill -INT "$server"
    ended 0
    DAT_OVERRIDE=$BATS_TEST_TMPDIR/ours.conf serve "$1"
    run -0 --separate-stderr "$ping" "${!1}" -m all -c 10 -S 5000 --json
    [[ $(jq -c '[.good, .library]' <<<"$output") == '[true,"'*'libdaplofa.so.2"]' ]]
    kill -INT "$server"
    ended 0
}
@test "rxe: OFED's provider and coherdma's speak to each other" { between rxe; }
@test "siw: OFED's provider and coherdma's speak to each other" { between siw; }

# OFED's ucm wants InfiniBand's numbers of a port, and falls over a device that has none.
@test "datinfo: a library that crashes takes nothing with it" {
    echo "ucm u2.0 nonthreadsafe default libdaploucm.so.2 dapl.2.0 \"$SOFTRDMA_SIW_DEVICE 1\" \"\"" >>"$DAT_OVERRIDE"
    run -0 --separate-stderr "$info"
    [[ $output == *"$SOFTRDMA_RXE_DEVICE "*' libdaplofa.so.2'*'Cannot be opened:'*'  ucm'*'its library died of signal 11'* ]]
    serve rxe
    run -0 "$ping" "$rxe" -c 1
}

@test "nobody listens, or nobody is there, says OFED" {
    for driver in rxe siw; do
        run -1 "$ping" "${!driver}" -p 4711 -t 5
        [[ $output == *"no connection to ${!driver} (DAT_CONNECTION_EVENT_"*'is `datping -s` running there, with -p 4711?'* ]]
        run -1 timeout 30 "$ping" "${!driver%.*}.77" -t 2
        [[ $output == *'has an RDMA device that address'* ]]
    done
}
