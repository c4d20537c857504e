#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# coherdma fault --fail-each on the programs and libraries of this project: whatever call fails, none crashes or hangs.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"
tool=$BUILD/tools/coherdma datping=$BUILD/tools/datping/datping

setup() {
    export TMPDIR=$BATS_TEST_TMPDIR COHERDMA_PROVIDER=$BUILD/provider/libcoherdma-rdmav34.so
    export LD_LIBRARY_PATH=$BUILD/udapl DAT_OVERRIDE=$BATS_TEST_TMPDIR/dat.conf COHERDMA_DAT_LIVE=0
    unset RDMAV_DRIVERS IBV_DRIVERS COHERDMA_SOFTRDMA
    [[ ${PROVIDER:-} == stock ]] || export RDMAV_DRIVERS=$BUILD/provider/libcoherdma
    DRIVER=${DRIVER:-rxe}
    "$BUILD/tools/datinfo/datinfo" --conf >"$DAT_OVERRIDE"
    address=$(device_fact "$DRIVER" ADDRESS)
    device=$(device_fact "$DRIVER" DEVICE)
}
teardown() {
    if [[ -n ${server:-} ]]; then
        kill "$server"
        wait "$server" || true
    fi
}

# expect_no_crash COMMAND...: it makes more than 20 calls, and each is tried.
expect_no_crash() {
    run -0 --separate-stderr "$tool" fault --fail-each --limit 20 -- "$@"
    # A thread that polls need not make the call whose number it was.
    (($(grep -c ' not made$' <<<"$output") <= 2))
    [[ $output =~ ([0-9]+)' calls: 0 crashes, 0 hangs' ]]
    ((BASH_REMATCH[1] > 20))
}

@test "a client of datping, over uDAPL" {
    "$datping" -s >"$BATS_TEST_TMPDIR/server.out" 2>&1 3>&- &
    server=$!
    wait_until grep -q . "$BATS_TEST_TMPDIR/server.out"
    expect_no_crash "$datping" -c 5 -m all "$address"
}

@test "a server of datping, over uDAPL" {
    cat >"$BATS_TEST_TMPDIR/serve" <<'END'
#!/bin/bash
# serve DATPING ADDRESS: a server with faults and a client without; the status is the server's.
"$1" -s & server=$!
for ((i = 0; i < 5; ++i)); do # it may not listen yet
    sleep 0.2
    env -u COHERDMA_OBSERVERS "$1" -c 5 -t 2 "$2" && break
    kill -0 $server || break
done
kill $server && wait $server
exit 0
END
    chmod +x "$BATS_TEST_TMPDIR/serve"
    expect_no_crash "$BATS_TEST_TMPDIR/serve" "$datping" "$address"
}

@test "coherdma selftest" {
    expect_no_crash "$tool" selftest "$device"
}
