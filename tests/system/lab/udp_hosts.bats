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
    chown nobody "$folder/home"
    for number in 1 2 3; do
        ip netns add "peer$number"
        ip -n "peer$number" link set lo up
    done
    # A bridge in the first namespace connects them.
    ip -n peer1 link add bridge type bridge
    ip -n peer1 link set bridge up
    ip -n peer1 address add 10.47.99.1/24 dev bridge
    for number in 2 3; do
        ip -n "peer$number" link add wire type veth peer name "port$number" netns peer1
        ip -n peer1 link set "port$number" master bridge up
        ip -n "peer$number" address add "10.47.99.$number/24" dev wire
        ip -n "peer$number" link set wire up
    done
    export folder
}
teardown_file() {
    for number in 1 2 3; do ip netns delete "peer$number" || true; done # they are missing after a failed setup
    rm -rf "$folder"
}

# run_host N COUNT OPTION... -- COMMAND...: runs host N of COUNT in its namespace, as user nobody.
run_host() {
    local number=$1 count=$2 peer options=()
    shift 2
    for peer in $(seq "$count"); do
        ((peer == number)) || options+=(--peer "10.47.99.$peer")
    done
    env -i -C "$folder/home" PATH="$PATH" TMPDIR="$folder/home" HOME="$folder/home" \
        ip netns exec "peer$number" setpriv --reuid nobody --regid nogroup --clear-groups --bounding-set -all --inh-caps -all --no-new-privs \
        "$folder/usr/bin/softrdma" run -q --as "$number" "${options[@]}" "$@" 3>&-
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
        grep -x 1400 "peer.$number"
        grep -E 'active_mtu:[[:space:]]+1024 ' "peer.$number"
    done
}

# run_in_container N COMMAND...: runs the command in a podman container in namespace N, with this machine's files
# under an overlay, as user 1000 without capabilities, with podman's seccomp filter. runc supports cgroups v1.
run_in_container() {
    local number=$1
    shift
    podman "${podman[@]}" run --rm --network "ns:/run/netns/peer$number" --user 1000:1000 --cap-drop all \
        --security-opt no-new-privileges --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 -w / --rootfs /:O "$@" 3>&-
}

@test "two containers: data_integrity verifies every byte, by rxe and by siw" {
    command -v podman >/dev/null || skip 'podman is not installed'
    for runtime in crun runc; do
        podman=(--cgroup-manager cgroupfs --runtime "$runtime")
        run_in_container 1 true >"$runtime" 2>&1 && break
    done
    run_in_container 1 true || skip "podman cannot run a container here: $(tail -n 1 crun)"
    run_in_container 1 "$folder/usr/bin/softrdma" run -q --as 1 --peer 10.47.99.2 --driver both -- \
        "${transfer_on_both[@]}" "$folder/data_integrity" >out.1 2>&1 &
    run_in_container 2 "$folder/usr/bin/softrdma" run -q --as 2 --peer 10.47.99.1 --driver both -- \
        sh -c 'ls /sys/class/infiniband; exec "$@"' sh "${transfer_on_both[@]}" "$folder/data_integrity" >out.2 2>&1 || {
        cat out.2 && false
    }
    wait $! || { cat out.1 && false; }
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
        grep "$message" peer.1
        grep "$message" peer.2
    }
    expect_disagreement 'has --driver' run_host 2 2 --driver siw -- true
    expect_disagreement 'has . hosts, this one has .' run_host 2 3 -- true
    cat >as <<'END'
exec ip netns exec peer2 env TMPDIR="$1/home" HOME="$1/home" "$1/usr/bin/softrdma" run -q --as 1 --peer 10.47.99.1 -- true
END
    expect_disagreement 'give each its number with --as' sh as "$folder"
}

@test "on: a host of another softrdma run is refused" {
    # shellcheck disable=SC2016
    run_hosts 2 -- sh -c 'on $((3 - SOFTRDMA_HOST)) true; [ $? = 2 ] && on $SOFTRDMA_HOST true'
    grep "host 2 is of another softrdma run" peer.1
}

@test "invalid datagrams, from a peer's address and others, change nothing" {
    cat >send_invalid.py <<'END'
import random, socket, sys, time
number, seconds = int(sys.argv[1]), float(sys.argv[2])
sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
if number == 2:  # the address and port of the peer
    sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sockets[0].bind(("10.47.99.2", 4799))
random.seed(number)
deadline = time.monotonic() + seconds
while time.monotonic() < deadline:
    for sender in sockets:
        kind = random.choice([b"h", b"b", b"f\0", b"f\1", b"f\7", b"h[[[", b'h{"host":{}}', b"h" + b"[" * 5000, b"", b"x"])
        sender.sendto(random.choice([b"softrdma1", b"", b"softrdma2"]) + kind + random.randbytes(random.randrange(200)), ("10.47.99.1", 4799))
    time.sleep(0.001)
END
    ip netns exec peer3 /usr/bin/python3 send_invalid.py 3 10 3>&- & # not an address of a peer
    ip netns exec peer2 /usr/bin/python3 send_invalid.py 2 3 3>&- & # the address of the peer
    sender_pid=$!
    # shellcheck disable=SC2016
    run_host 1 2 -- "$folder/data_integrity" server 198.19.1.1 >peer.1 2>&1 &
    host1_pid=$!
    wait $sender_pid
    run_host 2 2 -- "$folder/data_integrity" client 198.19.1.1
    wait $host1_pid || { cat peer.1 && false; }
    grep 'bytes verified' peer.1
}

@test "a host that is killed at random moments leaves nothing, and its peer ends" {
    export TMPDIR=$folder/home
    for _ in {1..5}; do
        moment=$((RANDOM % 25))
        run_host 1 2 --wait 4 -- sleep 3 >peer.1 2>&1 &
        host1_pid=$!
        run_host 2 2 --wait 4 -- sleep 3 >peer.2 2>&1 &
        sleep $((moment / 10)).$((moment % 10)) # the subject of the test
        pkill -KILL -o -f 'softrdma run -q --as 2' || true # it may not have started
        wait $host1_pid || true                             # its status depends on the moment
        wait
        wait_until is_nothing_left || {
            echo "after $moment tenths of a second: $(left_over)"
            return 1
        }
    done
}
