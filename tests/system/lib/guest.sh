# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# shellcheck shell=sh
#
# For guests of other releases or architectures, which have no bats: this text goes before the commands that
# sh runs there. is_listening is in the guest's current folder. Times only end a hang.

# wait_listen PORT
wait_listen() {
    # shellcheck disable=SC2034 # a counter
    for attempt in $(seq 600); do
        if ./is_listening "$1"; then return; fi
        sleep 0.5
    done
    echo "nothing listens at port $1"
    return 1
}

# guest_rping ADDRESS COUNT: the client verifies so many pings, which the caller counts in the output; the
# server sees its disconnection. The status of neither counts: is_rping_exit_race in known_faults.bash.
# With rdma-core 59 and later the server may wait without end after that, so it is ended then.
guest_rping() {
    timeout 1200 rping -s -a "$1" -C "$2" -V >/tmp/rping 2>&1 &
    server=$!
    wait_listen 7174
    timeout 1200 stdbuf -oL rping -c -a "$1" -C "$2" -V -v
    until grep -q 'server DISCONNECT' /tmp/rping || ! kill -0 $server 2>/dev/null; do sleep 0.5; done
    kill $server 2>/dev/null # it may have ended
    wait $server
    grep 'server DISCONNECT' /tmp/rping
}

# guest_perftest PROGRAM ADDRESS: as retry_perftest in known_faults.bash, after which it is tried again. If
# one side fails so, the other waits without end: the limits end it.
guest_perftest() {
    for attempt in 1 2 3 4 5 6 7 8 9 10 11 12; do
        # shellcheck disable=SC2086 # words
        timeout 300 $1 >/tmp/server 2>&1 &
        server=$!
        wait_listen 18515
        status=0
        # shellcheck disable=SC2086 # words
        timeout 240 $1 "$2" >/tmp/client 2>&1 || status=$?
        [ $status = 0 ] || kill $server
        wait $server || status=$?
        cat /tmp/client /tmp/server
        [ $status != 0 ] || return 0
        grep -qE 'Correlation coefficient|Failed to connect RDMA CM events|ERRNO: Operation not supported' /tmp/client /tmp/server || return 1
        echo "attempt $attempt failed by a fault of perftest"
    done
    return 1
}
