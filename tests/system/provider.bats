#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Programs that know nothing of coherdma on an rxe device that our plugin serves. Each test ends
# with a look at the log, in which the plugin says which device it opened.
# Run by ci/stages: softrdma run --driver rxe -- bats tests/system/provider.bats

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/lib.bash"

setup() {
    plugin=$BUILD/release/provider/libcoherdma
    export RDMAV_DRIVERS=$plugin VERBS_LOG_LEVEL=3 VERBS_LOG_FILE=$BATS_TEST_TMPDIR/verbs.log
}

# served TIMES: so many programs, at least, had the device from us.
served() {
    local times
    times=$(grep -c "$(of rxe DEVICE) is served by coherdma" "$VERBS_LOG_FILE")
    ((times >= $1)) || {
        echo "served $times times, not $1"
        return 1
    }
}

@test "a program that uses the device has the plugin mapped" {
    rping -s -a "$(of rxe ADDRESS)" >/dev/null 2>&1 3>&- &
    awaited 20 listens 7174
    grep -q "$plugin-rdmav" "/proc/$!/maps"
    kill $!
    wait $! || true
    served 1
}
@test "without being asked for, it serves nothing" {
    unset RDMAV_DRIVERS
    run -0 ibv_devinfo -d "$(of rxe DEVICE)"
    [[ ! -e $VERBS_LOG_FILE ]] || run ! grep coherdma "$VERBS_LOG_FILE"
}
@test "ibv_devinfo -v says what it says with the stock provider" {
    diff -u --label stock <(env -u RDMAV_DRIVERS ibv_devinfo -v) --label ours <(ibv_devinfo -v)
    served 1
}
@test "rping -C 100 -V" {
    pinged rxe
    served 2
}
@test "ib_write_bw" {
    measured rxe ib_write_bw '-n 500 -s 4096'
    served 2
}
@test "ib_read_bw" {
    measured rxe ib_read_bw '-n 500 -s 4096'
    served 2
}
@test "ib_send_lat" {
    measured rxe ib_send_lat '-n 200'
    served 2
}
@test "ib_atomic_lat" {
    measured rxe ib_atomic_lat '-n 200'
    served 2
}
@test "ibv_rc_pingpong, both sides polling" {
    ponged ''
    served 2
}
@test "ibv_rc_pingpong, both sides waiting for events" {
    ponged -e
    served 2
}
@test "ibv_srq_pingpong" {
    ponged '' ibv_srq_pingpong
    served 2
}
@test "every byte of Send, Write and Read arrives" {
    ADDRESS=$(of rxe ADDRESS) carried release env env
    served 2
}
@test "perftest and pingpong without a connection manager, which post by parts" {
    local options
    options="-d $(of rxe DEVICE) -x $(of rxe GID_INDEX) -n 200 -s 4096"
    for program in ib_write_bw ib_send_bw ib_read_bw; do
        AWAIT='accepts 18515' perftested "$program $options" "$(of rxe ADDRESS)"
    done
    ponged -N
    served 8
}
# Where the kernel and rdma-core have native ones, too: see flush.bats.
@test "libcoherdma's flush of a pair made without it reads back, and is refused without permission" {
    run -0 "$BUILD/release/tests/flush" "$(of rxe DEVICE)" "$(of rxe GID_INDEX)" read-back read-back-without-permission
    [[ ${lines[0]} == 'read-back: right (read back, success)' ]]
    [[ ${lines[1]} == 'read-back-without-permission: right (read back, remote access error)' ]]
    served 2
}
