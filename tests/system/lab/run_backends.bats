#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# A script on two hosts has the same output and status in user mode, in QEMU and on the running kernel.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"
source "$BATS_TEST_DIRNAME/../lib/caller.bash"

# run_on_hosts DRIVER COMMAND...: its output is in out and err; out ends with its status.
run_on_hosts() {
    local driver=$1
    shift
    cat >script <<'END'
for host in 1 2; do on $host printenv SOFTRDMA_HOST SOFTRDMA_DEVICE SOFTRDMA_NETDEV SOFTRDMA_ADDRESS HOST1 HOST2; done
echo input | on 2 sh -c 'cat; pwd; echo errors >&2; exit 3'; echo $?
on 3 true; echo $?
on 2 sh -c 'kill -TERM $$'; echo $?
for client in 1 2; do
    server=$((3 - client)); eval "address=\$HOST$server"
    on $server rping -s -a $address -C 5 -V >/dev/null 2>&1 &
    until on $server "$1" 7174; do sleep 0.05; done
    on $client rping -c -a $address -C 5 -V -v 2>/dev/null
    wait
done
on 2 "$0" server $HOST2 & "$0" client $HOST2; wait
exit 7
END
    status=0
    "$@" --driver "$driver" --hosts 2 -- sh -c "$(<script)" "$BUILD/tests/system/lib/data_integrity" "$lib/is_listening" >out 2>err || status=$?
    echo "status $status" >>out
    grep -v '^Terminated$' err >>out # some shells print it for a killed command
}

compare_backends() { # DRIVER
    run_on_hosts "$1" softrdma run --in uml -q
    mv out uml
    cat uml
    [[ $(grep -c '^ping data' uml) == 10 && $(grep -c 'bytes verified' uml) == 2 && $(grep '^status' uml) == 'status 7' ]]
    run_on_hosts "$1" softrdma run --in qemu -q
    diff uml out
    # --in here uses the kernel of the guest.
    run_on_hosts "$1" softrdma run --in qemu -q --driver "$1" -- "$program" run --in here -q
    diff uml out
}

@test "rxe: output and status are the same in user mode, QEMU and on the running kernel" { compare_backends rxe; }
@test "siw: output and status are the same in user mode, QEMU and on the running kernel" { compare_backends siw; }
