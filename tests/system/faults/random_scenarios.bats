#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Programs of uDAPL under random scenarios of coherdma fault. WHOLE=1: a thousand of each; SEED: the first one's.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"

setup() {
    export TMPDIR=$BATS_TEST_TMPDIR COHERDMA_PROVIDER=$BUILD/provider/libcoherdma-rdmav34.so DRIVER=${DRIVER:-rxe}
    export LD_LIBRARY_PATH=$BUILD/udapl:$BUILD/udapl/registry DAT_OVERRIDE=$BATS_TEST_TMPDIR/dat.conf COHERDMA_DAT_LIVE=0
    unset RDMAV_DRIVERS IBV_DRIVERS COHERDMA_SOFTRDMA
    [[ ${PROVIDER:-} == stock ]] || export RDMAV_DRIVERS=$BUILD/provider/libcoherdma
    "$BUILD/tools/datinfo/datinfo" --conf >"$DAT_OVERRIDE"
    # dtest's are in TCP's ephemeral range: on siw, a port that a client had a minute ago is still in use.
    sysctl -qw net.ipv4.ip_local_reserved_ports=45248-45999
    ulimit -c 0
}

run_scenarios() { # PROGRAM COUNT
    local count=$2
    [[ ! ${WHOLE:-} ]] || count=1000
    run -0 "$BATS_TEST_DIRNAME/random_scenarios.py" "$1" "${SEED:-1}" "$count"
    echo "$output"
    # At least a third of them have an effect.
    [[ $output =~ ([0-9]+)' with a fault' ]] && ((3 * BASH_REMATCH[1] > count))
}

@test "datping" { run_scenarios datping 100; }
@test "dtest" { run_scenarios dtest 30; }
@test "conform" { run_scenarios conform 50; }
