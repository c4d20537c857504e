#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# datping and datinfo over OFED's libraries, since they use uDAPL's headers only; and with one side over OFED's
# provider, the other over coherdma's.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/datping.bash"

setup() {
    mkdir "$BATS_TEST_TMPDIR/stock"
    ln -s "$(ldconfig -p | sed -n 's/.*libdat2\.so\.2 .*x86-64.* => //p' | head -n 1)" "$BATS_TEST_TMPDIR/stock/libdat2.so.2"
    export LD_LIBRARY_PATH=$BATS_TEST_TMPDIR/stock:$BUILD/udapl
    export DAT_OVERRIDE=$BATS_TEST_TMPDIR/dat.conf
    for driver in rxe siw; do
        echo "$(device_fact $driver DEVICE) u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 \"$(device_fact $driver NETDEV) 0\" \"\""
    done >"$DAT_OVERRIDE"
}

@test "rxe: datping over OFED's libraries verifies data in every mode" { verify_all_modes rxe; }
@test "siw: datping over OFED's libraries verifies data in every mode" { verify_all_modes siw; }
@test "rxe: datping over OFED's libraries finds a flipped bit" { expect_flipped_bit_found rxe pingpong; }
@test "siw: datping over OFED's libraries finds a flipped bit" { expect_flipped_bit_found siw pingpong; }
@test "rxe: datping over OFED's libraries reports faulty servers" { expect_server_faults_reported rxe; }
@test "siw: datping over OFED's libraries reports faulty servers" {
    # shellcheck disable=SC2034 # for bats
    BATS_TEST_RETRIES=$OFED_SIW_RETRIES
    expect_server_faults_reported siw
}
@test "rxe: a datping server over OFED's libraries reports and survives faulty clients" { expect_client_faults_survived rxe; }
@test "siw: a datping server over OFED's libraries reports and survives faulty clients" { expect_client_faults_survived siw; }

verify_between_providers() { # DRIVER: OFED's and ours
    "$info" --conf >"$BATS_TEST_TMPDIR/coherdma.conf"
    start_server "$1"
    DAT_OVERRIDE=$BATS_TEST_TMPDIR/coherdma.conf run_direct -0 --separate-stderr "$ping" "${!1}" -m all -c 10 -S 5000 --json
    [[ $(jq -c '[.good, .library]' <<<"$output") == '[true,"'*'libdaplcoherdma.so.2"]' ]]
    stop_server 0
    DAT_OVERRIDE=$BATS_TEST_TMPDIR/coherdma.conf start_server "$1"
    run_direct -0 --separate-stderr "$ping" "${!1}" -m all -c 10 -S 5000 --json
    [[ $(jq -c '[.good, .library]' <<<"$output") == '[true,"'*'libdaplofa.so.2"]' ]]
    stop_server 0
}
@test "rxe: datping verifies data between OFED's provider and coherdma's" { verify_between_providers rxe; }
@test "siw: datping verifies data between OFED's provider and coherdma's" { verify_between_providers siw; }

# OFED's ucm provider expects a LID, and crashes with a device that has none.
@test "datinfo reports a provider library that crashes, and goes on" {
    echo "ucm u2.0 nonthreadsafe default libdaploucm.so.2 dapl.2.0 \"$SOFTRDMA_SIW_DEVICE 1\" \"\"" >>"$DAT_OVERRIDE"
    run_direct -0 --separate-stderr "$info" --all
    [[ $output == *"$SOFTRDMA_RXE_DEVICE "*' libdaplofa.so.2'*'Cannot be opened:'*'  ucm'*'its library died of signal 11'* ]]
    start_server rxe
    run_direct -0 "$ping" "$rxe" -c 1
}

@test "datping over OFED's libraries reports that no server listens, or no host answers" {
    for driver in rxe siw; do
        run_direct -1 "$ping" "${!driver}" -p 4711 -t 5
        [[ $output == *"no connection to ${!driver} (DAT_CONNECTION_EVENT_"*'is `datping -s` running there, with -p 4711?'* ]]
        run_direct -1 "$ping" "${!driver%.*}.77" -t 2
        [[ $output == *'does an RDMA device have this address'* ]]
    done
}
