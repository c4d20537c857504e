#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Hosts that are a softrdma run each, connected by UDP, as in containers or on several machines. Here they are in
# network namespaces, as user nobody without capabilities.

bats_require_minimum_version 1.8.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"
source "$BATS_TEST_DIRNAME/../lib/caller.bash"

setup_file() {
    [[ $(id -u) == 0 ]] || skip 'only root makes network namespaces'
    # A folder that user nobody can read: an installed softrdma with the kernel, and programs.
    folder=$(mktemp -d /tmp/udp_hosts.XXXXXX)
    chmod 755 "$folder"
    mkdir -p "$folder"/usr/{bin,share/softrdma,lib/softrdma/uml} "$folder/home"
    cp "$BATS_TEST_DIRNAME/../../../scripts/softrdma" "$folder/usr/bin"
    cp -r "$BATS_TEST_DIRNAME/../../../scripts/lab" "$folder/usr/share/softrdma"
    cp -r "$(dirname "$("$BATS_TEST_DIRNAME/../../../scripts/softrdma" kernel path)")" "$folder/usr/lib/softrdma/uml/kernel"
    cp "$BUILD/tests/system/lib/data_integrity" "$folder"
    chmod -R a+rX "$folder"
    "$folder/usr/bin/softrdma" key "$folder/home/key"
    chown -R nobody "$folder/home"
    netns=$(basename "$folder"). # of this run alone
    for number in 1 2 3; do
        ip netns add "$netns$number"
        ip -n "$netns$number" link set lo up
    done
    # A bridge in the first namespace connects them.
    ip -n "${netns}1" link add bridge type bridge
    ip -n "${netns}1" link set bridge up
    ip -n "${netns}1" address add 10.47.99.1/24 dev bridge
    for number in 2 3; do
        ip -n "$netns$number" link add wire type veth peer name "port$number" netns "${netns}1"
        ip -n "${netns}1" link set "port$number" master bridge up
        ip -n "$netns$number" address add "10.47.99.$number/24" dev wire
        ip -n "$netns$number" link set wire up
    done
    export folder netns
}
teardown_file() {
    for number in 1 2 3; do ip netns delete "$netns$number" || true; done # they are missing after a failed setup
    rm -rf "$folder"
}

quiet=(-q)
# set_host_command N COUNT OPTION... -- COMMAND...: sets $host_command, which runs host N of COUNT in its namespace, as
# user nobody, with the key of $key, or the file $folder/home/key. It becomes the process of softrdma.
set_host_command() {
    local number=$1 count=$2 peer options=()
    shift 2
    for peer in $(seq "$count"); do
        ((peer == number)) || options+=(--peer "10.47.99.$peer")
    done
    host_command=(env -i -C "$folder/home" PATH="$PATH" TMPDIR="$folder/home" HOME="$folder/home"
        ip netns exec "$netns$number" setpriv --reuid nobody --regid nogroup --clear-groups --bounding-set -all --inh-caps -all
        --no-new-privs "$folder/usr/bin/softrdma" run "${quiet[@]}" --as "$number" --key "${key:-$folder/home/key}" "${options[@]}" "$@")
}
run_host() {
    set_host_command "$@"
    "${host_command[@]}" 3>&-
}

# run_hosts COUNT OPTION... -- COMMAND...: runs COUNT hosts, which all succeed. Their output is in peer.N.
run_hosts() {
    local count=$1 number status=0 pids=()
    shift
    for number in $(seq "$count"); do
        run_host "$number" "$count" "$@" <&0 >"peer.$number" 2>&1 &
        pids+=($!)
    done
    for number in $(seq "$count"); do
        wait "${pids[number - 1]}" || status=$?
    done
    ((status == 0)) || tail -n 20 peer.*
    return "$status"
}

# transfer_on_both: the command of both hosts: host 2 sends to host 1, by rxe and then by siw.
# shellcheck disable=SC2016 # expanded on the hosts
transfer_on_both=(sh -ec '
    for address in $SOFTRDMA_RXE_HOST1 $SOFTRDMA_SIW_HOST1; do
        case $SOFTRDMA_HOST in
        1) "$0" server $address ;;
        2) "$0" client $address ;;
        esac
    done')
expect_verified() { [[ $(grep -c 'bytes verified' "$1") == 2 ]]; } # FILE

@test "two hosts: data_integrity verifies every byte, by rxe and by siw" {
    run_hosts 2 --driver both -- "${transfer_on_both[@]}" "$folder/data_integrity"
    expect_verified peer.1
    expect_verified peer.2
}

@test "two hosts: frames fit into UDP datagrams of 1500 bytes" {
    run_hosts 2 -- sh -c 'cat "/sys/class/net/$SOFTRDMA_NETDEV/mtu"; ibv_devinfo'
    for number in 1 2; do
        grep -x 1380 "peer.$number"
        grep -E 'active_mtu:[[:space:]]+1024 ' "peer.$number"
    done
}

# run_in_container N COMMAND...: runs the command in a podman container in namespace N, with this machine's files
# under an overlay, as user 1000 without capabilities, with podman's seccomp filter. runc supports cgroups v1.
run_in_container() {
    local number=$1
    shift
    podman "${podman[@]}" run --rm --network "ns:/run/netns/$netns$number" --user 1000:1000 --cap-drop all --env SOFTRDMA_KEY \
        --security-opt no-new-privileges --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 -w / --rootfs /:O "$@" 3>&-
}

@test "two containers: data_integrity verifies every byte, by rxe and by siw" {
    command -v podman >/dev/null || skip 'podman is not installed'
    for runtime in crun runc; do
        podman=(--cgroup-manager cgroupfs --runtime "$runtime")
        run_in_container 1 true >"$runtime" 2>&1 && break
    done
    run_in_container 1 true || skip "podman cannot run a container here: $(tail -n 1 crun)"
    SOFTRDMA_KEY=$(<"$folder/home/key") # a file of user 1000 is not needed
    export SOFTRDMA_KEY
    run_in_container 1 "$folder/usr/bin/softrdma" run -q --as 1 --peer 10.47.99.2 --driver both -- \
        "${transfer_on_both[@]}" "$folder/data_integrity" >out.1 2>&1 &
    run_in_container 2 "$folder/usr/bin/softrdma" run -q --as 2 --peer 10.47.99.1 --driver both -- \
        sh -c 'ls /sys/class/infiniband; echo "key: ${SOFTRDMA_KEY-none}"; exec "$@"' sh "${transfer_on_both[@]}" "$folder/data_integrity" >out.2 2>&1 || {
        cat out.2 && false
    }
    wait $! || { cat out.1 && false; }
    grep -x 'key: none' out.2
    grep -x rxe2 out.2
    grep -x siw2 out.2
    expect_verified out.1
    expect_verified out.2
}

have_answered() {
    for number in 1 2 3; do
        [[ -e peer.$number && $(<"peer.$number") == *$'\n'answered* ]] || return 1
    done
}

@test "three hosts: rping connects each with each other, by rxe and by siw" {
    # Each host serves, and pings the others. Standard input ends when all have printed "answered".
    # shellcheck disable=SC2016
    WAIT_LIMIT=500 wait_until have_answered | run_hosts 3 --driver both -- bash -c "$(declare -f rping_until_served)"'
        for driver in RXE SIW; do
            address=SOFTRDMA_${driver}_ADDRESS
            rping -s -P -a "${!address}" 2>&1 >/dev/null | sed "s/^/$driver, as server: /" &
        done
        for peer in 1 2 3; do
            ((peer != SOFTRDMA_HOST)) || continue
            for driver in RXE SIW; do
                address=SOFTRDMA_${driver}_HOST$peer
                rping_until_served "${!address}" 3
            done
        done
        echo answered
        cat'
    for number in 1 2 3; do
        [[ $(grep -c '^ping data' peer.$number) == 12 ]] || {
            cat peer.$number
            return 1
        }
    done
}

@test "a wire with --loss: data_integrity verifies every byte" {
    # shellcheck disable=SC2016
    run_hosts 2 --loss 1% -- sh -c '
        case $SOFTRDMA_HOST in
        1) "$0" server $HOST1 ;;
        2) "$0" client $HOST1 ;;
        esac' "$folder/data_integrity"
    grep 'bytes verified' peer.2
}

@test "run waits for a host that starts late, and names one that does not start" {
    run_host 1 2 -- echo began >peer.1 2>&1 &
    host1_pid=$!
    sleep 4 # host 2 starts late
    run_host 2 2 -- true
    wait $host1_pid
    grep -x began peer.1
    run -1 run_host 1 2 --wait 2 -- true
    [[ $output == *'nothing was received from host 2 at 10.47.99.2 within 2 s'*'--as 2'* ]]
}

@test "hosts with different options print which" {
    # expect_disagreement MESSAGE COMMAND...: COMMAND runs host 2. Both hosts fail with the message.
    expect_disagreement() {
        local message=$1
        shift
        run_host 1 2 -- sleep 1 >peer.1 2>&1 &
        host1_pid=$!
        "$@" >peer.2 2>&1 || true # checked by its output
        wait $host1_pid && return 1
        tail -n 5 peer.1 peer.2
        grep "$message" peer.1
        grep "$message" peer.2
    }
    expect_disagreement 'has --driver' run_host 2 2 --driver siw -- true
    expect_disagreement 'has . hosts, this one has .' run_host 2 3 -- true
    set_host_command 2 2 -- true
    command_line=${host_command[*]} # no word has a blank
    # shellcheck disable=SC2086
    expect_disagreement 'give each its number with --as' ${command_line/--as 2/--as 1}
}

@test "hosts with different keys print that, and how to give them the same" {
    softrdma key "$folder/home/other_key"
    chown nobody "$folder/home/other_key"
    run_host 1 2 --wait 8 -- true >peer.1 2>&1 &
    host1_pid=$!
    key=$folder/home/other_key run -1 run_host 2 2 --wait 8 -- true
    [[ $output == *'datagrams from host 1 at 10.47.99.1 have another key; give both the same --key FILE' ]]
    wait $host1_pid && false
    grep 'datagrams from host 2 at 10.47.99.2 have another key; give both the same --key FILE' peer.1
}

@test "on: a host of another softrdma run is refused" {
    # shellcheck disable=SC2016
    run_hosts 2 -- sh -c 'on $((3 - SOFTRDMA_HOST)) true; [ $? = 2 ] && on $SOFTRDMA_HOST true'
    grep "host 2 is of another softrdma run" peer.1
}

teardown() { touch "$BATS_TEST_TMPDIR/attacked"; } # ends the hosts of a test that failed
attacker=$BATS_TEST_DIRNAME/peer_attacker.py
attack() { ip netns exec "${netns}3" "$attacker" "$@" 3>&-; } # prints how many datagrams were sent
# start_capture FILE: of what host 1 is sent.
start_capture() {
    : >capture.out
    ip netns exec "${netns}1" "$attacker" capture bridge "$1" >capture.out 3>&- &
    capture_pid=$!
    wait_until grep -q capturing capture.out
}
stop_capture() {
    kill "$capture_pid"
    wait "$capture_pid" || true # by the signal
}
# overflowed_datagrams: those that the kernel of host 1 had no buffer for.
overflowed_datagrams() { ip netns exec "${netns}1" awk '$1 == "Udp:" && $6 ~ /[0-9]/ { print $6 }' /proc/net/snmp; }

@test "forged datagrams, those of this and an earlier run, and random ones are dropped and counted" {
    quiet=() # the count is a note
    start_capture earlier
    run_hosts 2 -- true
    stop_capture
    run ! grep dropped peer.1 # nothing in an ordinary run
    run ! grep dropped peer.2

    overflowed=$(overflowed_datagrams)
    sent=0
    # shellcheck disable=SC2016
    WAIT_LIMIT=900 wait_until test -e attacked 3>&- | run_host 1 2 -- sh -ec '
        echo began
        python3 -c "
import socket
receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.bind((\"\", 9999))
while True:
    print(receiver.recv(2000), flush=True)" &
        "$0" server $HOST1
        echo "first is done"
        cat
        "$0" server $HOST1' "$folder/data_integrity" >peer.1 2>&1 &
    host1_pid=$!

    # Host 2 is not there: nothing starts or ends host 1.
    wait_until grep -q 'ready, waiting for host 2' peer.1
    sent=$((sent + $(attack forge 50)))
    attack replay earlier
    sent=$((sent + $(attack forge 50)))
    pause 1
    run ! grep began peer.1
    kill -0 $host1_pid

    start_capture current
    # shellcheck disable=SC2016
    WAIT_LIMIT=900 wait_until test -e attacked 3>&- | run_host 2 2 -- sh -ec '
        "$0" client $HOST1
        cat
        "$0" client $HOST1' "$folder/data_integrity" >peer.2 2>&1 &
    host2_pid=$!
    wait_until grep -q began peer.1
    # While they transfer.
    sent=$((sent + $(attack random 100000)))
    sent=$((sent + $(attack forge 100)))
    wait_until grep -q 'first is done' peer.1
    stop_capture
    num_replayed=$(attack replay current)
    attack replay earlier
    ((num_replayed > 100))
    touch attacked
    wait $host1_pid || { cat peer.1 && false; }
    wait $host2_pid || { cat peer.2 && false; }
    expect_verified peer.1
    run ! grep -a 'a forged frame' peer.1
    run ! grep 'wrong tag' peer.2
    grep '^softrdma: dropped' peer.1
    dropped=$(sed -nE 's/^softrdma: dropped ([0-9]+) datagrams: .* version or too short, [0-9]+ with a wrong tag.* received before.*/\1/p' peer.1)
    overflowed=$(($(overflowed_datagrams) - overflowed))
    ((dropped + overflowed >= sent)) || {
        echo "dropped $dropped and $overflowed of $sent"
        return 1
    }
    ((dropped > 50000))
}

@test "a host that is killed at random moments leaves nothing, and its peer ends" {
    export TMPDIR=$folder/home
    for _ in {1..5}; do
        moment=$((RANDOM % 25))
        run_host 1 2 --wait 4 -- sleep 3 >peer.1 2>&1 &
        host1_pid=$!
        set_host_command 2 2 --wait 4 -- sleep 3
        "${host_command[@]}" >peer.2 2>&1 3>&- &
        host2_pid=$!
        sleep $((moment / 10)).$((moment % 10)) # the subject of the test
        kill -KILL $host2_pid
        wait $host1_pid || true # its status depends on the moment
        wait
        wait_until is_nothing_left || {
            echo "after $moment tenths of a second: $(left_over)"
            return 1
        }
    done
}
