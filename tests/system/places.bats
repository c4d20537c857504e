#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The same program on two hosts, wherever softrdma puts them: the same output, errors and status.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/lib.bash"
source "$BATS_TEST_DIRNAME/caller.bash"

# of_hosts DRIVER OPTION... : what it says there, in out and err, and its status
of_hosts() {
    local driver=$1
    shift
    cat >program <<'END'
for host in 1 2; do on $host printenv SOFTRDMA_HOST SOFTRDMA_DEVICE SOFTRDMA_NETDEV SOFTRDMA_ADDRESS HOST1 HOST2; done
echo input | on 2 sh -c 'cat; pwd; echo errors >&2; exit 3'; echo $?
on 3 true; echo $?
on 2 sh -c 'kill -TERM $$'; echo $?
for from in 1 2; do
    to=$((3 - from)); eval "address=\$HOST$to"
    on $to rping -s -a $address -C 5 -V >/dev/null 2>&1 &
    until on $to rdma resource show cm_id | grep -q LISTEN; do :; done
    on $from rping -c -a $address -C 5 -V -v 2>/dev/null
    wait
done
on 2 "$0" server $HOST2 & "$0" client $HOST2; wait
exit 7
END
    status=0
    "$@" --driver "$driver" --hosts 2 -- sh -c "$(<program)" "$BUILD/release/tests/carry" >out 2>err || status=$?
    echo "status $status" >>out
    grep -v '^Terminated$' err >>out # some shells say it of the one that ended
}

same_everywhere() { # DRIVER
    of_hosts "$1" softrdma run --in uml -q
    mv out uml
    cat uml
    [[ $(grep -c '^ping data' uml) == 10 && $(grep -c 'bytes verified' uml) == 2 && $(grep '^status' uml) == 'status 7' ]]
    of_hosts "$1" softrdma run --in qemu -q
    diff uml out
    # The kernel of the guest is the running one there.
    of_hosts "$1" softrdma run --in qemu -q --driver "$1" -- "$program" run --in here -q
    diff uml out
}

@test "the same in user mode, in QEMU and on the running kernel, rxe" { same_everywhere rxe; }
@test "the same in user mode, in QEMU and on the running kernel, siw" { same_everywhere siw; }
