# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# shellcheck shell=bash
#
# Workarounds for faults of programs and kernels that these tests use: one function or variable each, with
# the fault in its comment. Faults of OFED's uDAPL and its programs are the rows of
# tests/data/dat/stock-faults. tests/system/KNOWN_FAULTS.md lists all, with causes.

# is_rping_exit_race SIDE STATUS: rping has done its work, then ended with 255. Its main thread destroys
# the event channel in which its CM thread waits next: rdma_get_cm_event fails, and the CM thread ends the
# process. Both sides do, with rdma-core 44; with 59 and later the server may wait without end instead.
is_rping_exit_race() {
    local out=$BATS_TEST_TMPDIR/$1.out
    [[ $2 == 255 ]] && grep -qaF 'rdma_get_cm_event: Bad file descriptor' "$out" &&
        ! grep -qaE 'rping (client|server) failed' "$out"
}

# What perftest prints when it fails by itself:
# - it compares the CPU's cycle counter with the system clock, and gives up if other work disturbs that;
# - its client connects a second time before its server listens for that, and then ends with a bad address.
PERFTEST_FAULTS='Correlation coefficient|Failed to connect RDMA CM events|ERRNO: Operation not supported'

# retry_perftest COMMAND...: run a pair of perftest programs, by run_limited with a clock that agrees with the
# cycle counter (perftest_clock.c), and again while one of them has such a fault. With PERFTEST_MAY_HANG also if
# the client was ended before it printed anything: ib_send_bw -e on iWARP keeps its last Send back until a credit
# arrives, by an RDMA Write, which makes no event, and waits for an event.
retry_perftest() {
    local status
    for _ in {1..12}; do
        status=0
        PRELOAD=$BUILD/tests/system/lib/libperftest_clock.so "$@" || status=$?
        [[ ${PERFTEST_MAY_HANG:-} && ! -s $BATS_TEST_TMPDIR/client.out ]] ||
            has_printed client "$PERFTEST_FAULTS" || has_printed server "$PERFTEST_FAULTS" || break
    done
    return "$status"
}

# retry_siw_early_data COMMAND...: run a client again that siw did not connect because its server sends
# at once after it accepts. If these data arrive before the client's kernel has read the MPA reply, siw
# takes them for a reply that is too long (-22), or has no work item left for the reply's timeout
# (Cannot allocate memory). Of runs on a busy machine 2 in 100 with the stock provider, 8 with ours.
retry_siw_early_data() {
    for _ in {1..5}; do
        ! "$@" || return 0
        grep -qE 'CONNECT_ERROR, error: -22$|failure connecting: Cannot allocate memory$' "$BATS_TEST_TMPDIR/client.out" ||
            return 1
    done
    "$@"
}

# mckey_until_received OPTION...: commands that send datagrams to a group until the receiver, which
# prints to server.out, has them. mckey's sender leaves the group and destroys its QP without waiting for
# its sends: in 2 of 5 runs they are dropped.
mckey_until_received() {
    echo "until mckey $* -s || exit; grep -q '^data transfers complete' server.out; do :; done"
}

# rping_until_served ADDRESS COUNT: rping to a server that another host starts some time, perhaps to one
# that others ask at the same time. rping ends well, too, when it is disconnected before the first ping.
# Of two clients that connect to siw at the same time, the stock provider's server leaves one unreachable.
rping_until_served() {
    local status out
    for attempt in {1..50}; do
        status=0
        out=$(timeout 60 rping -c -a "$1" -C "$2" -V -v 2>&1) || status=$?
        ((status == 0 && $(grep -c '^ping data' <<<"$out") == $2)) && echo "$out" && return
        # shellcheck disable=SC2001 # each line
        sed "s/^/$1, attempt $attempt, status $status: /" <<<"$out"
        sleep 0.2
    done
    return 1
}

# With OFED's libraries on siw a connection was refused once, on a busy machine, although its server listened:
# probably retry_siw_early_data's fault, since these servers send at once after they accept.
export OFED_SIW_RETRIES=2

# run_in_suite --suite SUITE [OPTION...] -- COMMAND...: in a guest of another Debian release. A kernel
# that patches its own code while it boots (6.12) may die of that on two emulated processors.
run_in_suite() {
    local out=$BATS_TEST_TMPDIR/guest.out status
    for _ in 1 2 3; do
        status=0
        "$BATS_TEST_DIRNAME/../../../scripts/softrdma" run -q "$@" >"$out" 2>&1 || status=$?
        grep -q 'Oops: int3' "$out" || break
    done
    cat "$out"
    return "$status"
}
