#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# What the observer counts is what programs written elsewhere report. With the provider that $PROVIDER names: stock or
# coherdma.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/counts.bash"

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    [[ ${PROVIDER:?} != coherdma ]] || use_our_provider
}

need() { command -v "$1" >/dev/null || skip "$1 is not installed"; }

# run_observed PORT SERVER CLIENT: @ in the commands is the device's address. Both are observed.
run_observed() {
    # shellcheck disable=SC2046 # words
    READY="is_listening_tcp $1" run_server_client "$(observed server "${2//@/$address}")" \
        "$(observed client "${3//@/$address}")"
}
set_device() { # DRIVER
    address=$(device_fact "$1" ADDRESS) device=$(device_fact "$1" DEVICE)
}

# perftest's row begins with the size and the number of iterations.
run_perftest_of() { # DRIVER PROGRAM KIND
    set_device "$1"
    need "$2"
    local options="-R -d $device -n 200 -s 4096"
    PORT=18515 run_perftest_commands "$(observed server "$2" "$options")" '' \
        "$(observed client "$2" "$options" "$address")"
    expect_output client '^ 4096 +200 '
    expect_counts client "$3.requests=200" "$3.bytes=$((200 * 4096))" failed=0 unknown=0
}
# With -R, it also exchanges messages of its own.
@test "rxe: ib_write_bw" { run_perftest_of rxe ib_write_bw write; }
@test "siw: ib_write_bw" { run_perftest_of siw ib_write_bw write; }
@test "rxe: ib_read_lat" { run_perftest_of rxe ib_read_lat read; }
@test "siw: ib_read_lat" { run_perftest_of siw ib_read_lat read; }
@test "rxe: ib_atomic_bw" {
    set_device rxe
    local options="-R -d $device -n 200"
    PORT=18515 run_perftest_commands "$(observed server ib_atomic_bw "$options")" '' \
        "$(observed client ib_atomic_bw "$options" "$address")"
    expect_output client '^ 8 +200 '
    expect_counts client atomic.requests=200 atomic.bytes=1600 failed=0 unknown=0
}

@test "rxe: pyverbs" {
    set_device rxe
    # shellcheck disable=SC2046 # words
    run -0 $(observed program "$BATS_TEST_DIRNAME/pyverbs_writes.py" "$device" "$(device_fact rxe GID_INDEX)" 50 1000)
    [[ $output == '50 posted, 50 completed' ]]
    expect_counts program write.requests=50 write.bytes=50000 accepted=50 completions=50 sends=50 unknown=0
}

# With -w 0 it does not warm up. A Write of 2 in the first byte ends the test (its uct_tests.cc: the sentinel).
@test "rxe: ucx_perftest, RDMA Writes" {
    need ucx_perftest
    set_device rxe
    local options="ucx_perftest -x rc_verbs -d $device:1 -t put_bw -D zcopy -s 4096 -n 100 -w 0"
    run_observed 13337 "$options" "$options @"
    expect_output client '^Final: +100 '
    expect_counts client write.requests=101 write.bytes=$((101 * 4096)) failed=0 unknown=0
}

@test "rxe: fi_pingpong, messages" { run_fi_pingpong rxe; }
@test "siw: fi_pingpong, messages" { run_fi_pingpong siw; }
run_fi_pingpong() { # DRIVER
    need fi_pingpong
    set_device "$1"
    local options="fi_pingpong -p verbs -e msg -d $device -c -I 20 -S 1024" side
    run_observed 47592 "$options" "$options @"
    for side in server client; do
        expect_output $side '^1k +20 +=20 +40k '
        # A message of 4 bytes ends it.
        expect_counts $side message.requests=21 message.bytes=$((20 * 1024 + 4)) failed=0 unknown=0 outstanding=0
    done
}

@test "rxe: fio, RDMA Writes" { run_fio rxe write; }
@test "siw: fio, RDMA Writes" { run_fio siw write; }
@test "rxe: fio, RDMA Reads" { run_fio rxe read; }
@test "siw: fio, RDMA Reads" { run_fio siw read; }
run_fio() { # DRIVER VERB
    need fio
    set_device "$1"
    local common='fio --thread --ioengine=rdma --port=7471 --bs=64k --size=1m --iodepth=8'
    # The client is the side with --rw=write, whatever the verb is.
    PORT=7471 run_server_client "$(observed server.%p "$common --name=server --rw=read")" \
        "$(observed client.%p "$common --name=client --hostname=$address --verb=$2 --rw=write --iodepth_batch_complete=1")"
    expect_output client 'WRITE: .* io=1024KiB'
    expect_output client 'issued rwts: total=0,16,'
    mv client.*.count client.count
    expect_counts client "$2.requests=16" "$2.bytes=$((1024 * 1024))" failed=0 unknown=0
}

# An IA with the name lab of our uDAPL library.
use_udapl() {
    local safety
    for safety in threadsafe nonthreadsafe; do
        echo "lab u2.0 $safety default $BUILD/udapl/libdaplcoherdma.so.2 dapl.2.0 \"$(device_fact "$1" NETDEV) 0\" \"\""
    done >dat.conf
    export DAT_OVERRIDE=$PWD/dat.conf LD_LIBRARY_PATH=$BUILD/udapl/registry${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
}

@test "rxe: datping" { run_datping rxe; }
@test "siw: datping" { run_datping siw; }
run_datping() { # DRIVER
    local ping=$BUILD/tools/datping/datping mode
    set_device "$1"
    use_udapl "$1"
    for mode in write read; do
        PORT=7175 run_server_client "$(observed server "$ping -s -I lab --once")" \
            "$(observed client "$ping -I lab -m $mode -c 20 -S 4096 --json $address")"
        expect_output client '"rounds": 20,'
        expect_output client '"size": 4096,'
        expect_counts client "$mode.requests=20" "$mode.bytes=$((20 * 4096))" failed=0 unknown=0
    done
}

# dtest reports the Writes of both sides.
@test "rxe: dtest" { run_dtest rxe; }
@test "siw: dtest" { run_dtest siw; }
run_dtest() { # DRIVER
    need dtest
    set_device "$1"
    use_udapl "$1"
    READY='is_listening_tcp 15828' run_server_client "$(observed server dtest -P lab -s -b 4096)" \
        "$(observed client dtest -P lab -h "$address" -b 4096)"
    expect_output client 'PingPong: \(100 x 4096\)'
    expect_output client 'RDMA write \(bi-direction\): .* 2000 x 4096'
    for side in server client; do
        expect_counts $side write.requests=1000 write.bytes=$((1000 * 4096)) failed=0 unknown=0
    done
}
