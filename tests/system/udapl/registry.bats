#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The registry on a machine with devices: their names without a dat.conf, and entries of an old dat.conf.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"

setup() {
    release=${BUILD:-$BATS_TEST_DIRNAME/../../../build/release}
    # Where libdat2 looks for the other two; it is found by the program's own run path.
    export LD_LIBRARY_PATH=$release/udapl:$release/ibverbs-glue
    export DAT_OVERRIDE=/dev/null
    unset COHERDMA_DAT_LIVE DAT_DBG_TYPE DAT_DBG_DEST
    names=$release/tests/system/udapl/names names_dat1=$release/tests/system/udapl/names_dat1
    program=$release/tests/system/udapl/sync_programs/sync_batch_dat1
    rxe_netdev=$(device_fact rxe NETDEV) siw_netdev=$(device_fact siw NETDEV)
}

write_dat_conf() {
    export DAT_OVERRIDE=$BATS_TEST_TMPDIR/dat.conf
    cat >"$DAT_OVERRIDE"
}

@test "each device has its uDAPL 2.0 names without dat.conf" {
    all=(rxe0 "$rxe_netdev" "ofa-v2-$rxe_netdev" ofa-v2-rxe0-1{,s,u}
        siw0 "$siw_netdev" "ofa-v2-$siw_netdev" ofa-v2-siw0-1{,s,u})
    diff -u <(for each in "${all[@]}"; do
        printf '%s 2.0\n' "$each"
        printf '%s 2.0 threadsafe\n' "$each"
    done) <("$names")
    run -0 "$names" "${all[@]}"
    [[ $(grep -c ': DAT_SUCCESS $' <<<"$output") == "${#all[@]}" ]]
    run -1 "$names" rxe1
    [[ $output == 'rxe1: DAT_PROVIDER_NOT_FOUND DAT_NAME_NOT_REGISTERED' ]]
}

@test "each device has its uDAPL 1.2 names without dat.conf" {
    diff -u <(for each in rxe0 "$rxe_netdev" OpenIB-cma OpenIB-rxe0-1 \
        siw0 "$siw_netdev" OpenIB-cma-1 OpenIB-siw0-1; do
        printf '%s 1.2\n' "$each"
        printf '%s 1.2 threadsafe\n' "$each"
    done) <("$names_dat1")
    run -1 "$names_dat1" ofa-v2-rxe0-1 OpenIB-cma-2
    [[ ${lines[0]} == 'ofa-v2-rxe0-1: DAT_PROVIDER_NOT_FOUND DAT_NAME_NOT_REGISTERED' ]]
    [[ ${lines[1]} == 'OpenIB-cma-2: DAT_PROVIDER_NOT_FOUND DAT_NAME_NOT_REGISTERED' ]]
}

@test "a program of uDAPL 1.2 transfers data on each device" {
    for each in rxe0 RO_AWARE_rxe0 "$siw_netdev" OpenIB-siw0-1; do
        "$program" "$each"
    done
    # As OFED's dat.conf had it.
    write_dat_conf <<<"OpenIB-cma u1.2 nonthreadsafe default libdaplcma.so.1 dapl.1.2 \"$rxe_netdev 0\" \"\""
    COHERDMA_DAT_LIVE=0 "$program" OpenIB-cma
}

@test "devices have no names with COHERDMA_DAT_LIVE=0, nor without libcoherdma" {
    [[ $(COHERDMA_DAT_LIVE=0 "$names" | wc -l) == 0 ]]
    COHERDMA_DAT_LIVE=0 run -1 "$names" rxe0
    [[ $(LD_LIBRARY_PATH='' "$names" | wc -l) == 0 ]]
    LD_LIBRARY_PATH='' DAT_DBG_TYPE=4 run -1 "$names" rxe0
    [[ $output == *"libdat2: cannot load 'libcoherdma.so.1': "* ]]
}

@test "dat.conf entries whose libraries are gone are served by coherdma" {
    write_dat_conf <<EOF
ofa-v2-ib0 u2.0 nonthreadsafe default libdapl-gone.so.2 dapl.2.0 "$rxe_netdev 0" ""
ofa-v2-iwarp u2.0 nonthreadsafe default libdapl-gone.so.2 dapl.2.0 "siw0 1" ""
stray u2.0 nonthreadsafe default libdapl-gone.so.2 dapl.2.0 "nowhere0 1" ""
EOF
    DAT_DBG_TYPE=4 run -0 "$names" ofa-v2-ib0 ofa-v2-iwarp
    [[ $output == *'ofa-v2-ib0: no library of its entries can be loaded; trying libdaplcoherdma.so.2'* ]]
    [[ $output == *'ofa-v2-ib0: DAT_SUCCESS'*'ofa-v2-iwarp: DAT_SUCCESS'* ]]
    run -1 "$names" stray
    [[ $output == 'stray: DAT_PROVIDER_NOT_FOUND '* ]]
}

@test "OFED's provider opens below our registry" {
    write_dat_conf <<<"stock u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 \"$rxe_netdev 0\" \"\""
    COHERDMA_DAT_LIVE=0 run -0 "$names"
    [[ $output == 'stock 2.0' ]]
    run -0 "$names" stock stock
    [[ $output == $'stock: DAT_SUCCESS \nstock: DAT_SUCCESS ' ]]
}
# OFED's provider does not register itself then, and crashes in its fini function.
@test "OFED's providers with invalid parameters: DAT_PROVIDER_NOT_FOUND" {
    for library in libdaplofa.so.2 libdaploscm.so.2 libdaploucm.so.2; do
        write_dat_conf <<<"stock u2.0 nonthreadsafe default $library dapl.2.0 one-word \"\""
        run -1 "$names" stock stock
        [[ ${#lines[@]} == 2 && ${lines[1]} == 'stock: DAT_PROVIDER_NOT_FOUND DAT_NAME_NOT_REGISTERED' ]]
    done
}
