#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Hosts that are a softrdma run each, joined by UDP: as in containers or on machines of their own, in
# network namespaces of their own, by user nobody without any capability.

bats_require_minimum_version 1.8.0
source "$BATS_TEST_DIRNAME/lib.bash"
source "$BATS_TEST_DIRNAME/caller.bash"

setup_file() {
    [[ $(id -u) == 0 ]] || skip 'only root makes network namespaces'
    # What nobody may read: softrdma as a package has it, with the kernel; what they run; results.
    place=$(mktemp -d /tmp/peers.XXXXXX)
    chmod 755 "$place"
    mkdir -p "$place"/usr/{bin,share/softrdma,lib/softrdma/uml} "$place/own"
    cp "$BATS_TEST_DIRNAME/../../scripts/softrdma" "$place/usr/bin"
    cp -r "$BATS_TEST_DIRNAME/../../scripts/lab" "$place/usr/share/softrdma"
    cp -r "$(dirname "$("$BATS_TEST_DIRNAME/../../scripts/softrdma" kernel path)")" "$place/usr/lib/softrdma/uml/kernel"
    cp "$BUILD/release/tests/carry" "$place"
    chmod -R a+rX "$place"
    chown nobody "$place/own"
    for number in 1 2 3; do
        ip netns add "peer$number"
        ip -n "peer$number" link set lo up
    done
    # A bridge in the first one joins them.
    ip -n peer1 link add bridge type bridge
    ip -n peer1 link set bridge up
    ip -n peer1 address add 10.47.99.1/24 dev bridge
    for number in 2 3; do
        ip -n "peer$number" link add wire type veth peer name "port$number" netns peer1
        ip -n peer1 link set "port$number" master bridge up
        ip -n "peer$number" address add "10.47.99.$number/24" dev wire
        ip -n "peer$number" link set wire up
    done
    export place
}
teardown_file() {
    for number in 1 2 3; do ip netns delete "peer$number" || true; done
    rm -rf "$place"
}

# peer N OF OPTION... -- COMMAND...: host N of OF, in its namespace, by nobody.
peer() {
    local number=$1 of=$2 other options=()
    shift 2
    for other in $(seq "$of"); do
        ((other == number)) || options+=(--peer "10.47.99.$other")
    done
    env -i -C "$place/own" PATH="$PATH" TMPDIR="$place/own" HOME="$place/own" \
        ip netns exec "peer$number" setpriv --reuid nobody --regid nogroup --clear-groups --bounding-set -all --inh-caps -all --no-new-privs \
        "$place/usr/bin/softrdma" run -q --as "$number" "${options[@]}" "$@" 3>&-
}

# together OF OPTION... -- COMMAND...: so many hosts run it; what each printed is in peer.N. All succeed.
together() {
    local of=$1 number status=0 pids=()
    shift
    for number in $(seq "$of"); do
        peer "$number" "$of" "$@" <&0 >"peer.$number" 2>&1 &
        pids+=($!)
    done
    for number in $(seq "$of"); do
        wait "${pids[number - 1]}" || status=$?
    done
    ((status == 0)) || tail -n 20 peer.*
    return "$status"
}

@test "two hosts: every byte arrives, by rxe and by siw" {
    for driver in rxe siw; do
        # shellcheck disable=SC2016 # the arguments are those of sh
        together 2 --driver $driver -- sh -c '
            case $SOFTRDMA_HOST in
            1) "$0" server $HOST1 ;;
            2) "$0" client $HOST1 ;;
            esac' "$place/carry"
        grep 'bytes verified' peer.1
        grep 'bytes verified' peer.2
    done
}

# contained N COMMAND...: the same in a container of podman's: this machine's files under a layer of its
# own, user 1000, no capability, podman's own list of system calls. What crun cannot do with older cgroups,
# runc can.
contained() {
    local number=$1
    shift
    podman "${podman[@]}" run --rm --network "ns:/run/netns/peer$number" --user 1000:1000 --cap-drop all \
        --security-opt no-new-privileges --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 -w / --rootfs /:O "$@" 3>&-
}

@test "two containers: every byte arrives, by rxe and by siw" {
    command -v podman >/dev/null || skip 'there is no podman'
    for runtime in crun runc; do
        podman=(--cgroup-manager cgroupfs --runtime "$runtime")
        contained 1 true >"$runtime" 2>&1 && break
    done
    contained 1 true || skip "podman cannot run a container here: $(tail -n 1 crun)"
    for driver in rxe siw; do
        network=$([[ $driver == rxe ]] && echo 198.19.1 || echo 198.19.2)
        contained 1 "$place/usr/bin/softrdma" run -q --as 1 --peer 10.47.99.2 --driver $driver -- \
            "$place/carry" server "$network.1" >out.1 2>&1 &
        contained 2 "$place/usr/bin/softrdma" run -q --as 2 --peer 10.47.99.1 --driver $driver -- \
            sh -c 'ls /sys/class/infiniband; "$0" client "$1"' "$place/carry" "$network.1" >out.2 2>&1 || {
            cat out.2 && false
        }
        wait $! || { cat out.1 && false; }
        grep -x ${driver}2 out.2
        grep 'bytes verified' out.2
        grep 'bytes verified' out.1
    done
}

answered() { sleep 0.2 && (($(cat peer.* 2>/dev/null | grep -c '^answered$') == 3)); }

@test "three hosts: each reaches each, by rxe and by siw" {
    # All serve, and each asks both others. They end with their input: when all have their answers.
    # shellcheck disable=SC2016
    awaited 300 answered | together 3 --driver both -- bash -c '
        for driver in RXE SIW; do
            address=SOFTRDMA_${driver}_ADDRESS
            rping -s -P -a "${!address}" 2>&1 >/dev/null | sed "s/^/$driver, as server: /" &
        done
        for to in 1 2 3; do
            ((to != SOFTRDMA_HOST)) || continue
            for driver in RXE SIW; do
                address=SOFTRDMA_${driver}_HOST$to
                for try in {1..50}; do
                    status=0
                    said=$(timeout 20 rping -c -a "${!address}" -C 3 -V -v 2>&1) || status=$?
                    # To be disconnected before the first ping is success to rping, too.
                    ((status == 0 && $(grep -c "^ping data" <<<"$said") == 3)) && echo "$said" && break
                    sed "s/^/$driver, host $to, attempt $try, status $status: /" <<<"$said"
                    sleep 0.2
                done
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

@test "a wire between them that loses packets" {
    # shellcheck disable=SC2016
    together 2 --loss 1% -- sh -c '
        case $SOFTRDMA_HOST in
        1) "$0" server $HOST1 --timeout 60 ;;
        2) "$0" client $HOST1 --timeout 60 ;;
        esac' "$place/carry"
    grep 'bytes verified' peer.2
}

@test "who comes late is waited for; who never comes is named" {
    peer 1 2 -- echo began >peer.1 2>&1 &
    first=$!
    sleep 4
    peer 2 2 -- true
    wait $first
    grep -x began peer.1
    run -1 peer 1 2 --wait 2 -- true
    [[ $output == *'nothing was heard from host 2 at 10.47.99.2 within 2 s'*'--as 2'* ]]
}

@test "hosts that do not agree say on what" {
    # disagree SAID OPTION... : what host 1 is told when host 2 has these options
    disagree() {
        local said=$1
        shift
        peer 1 2 -- sleep 1 >peer.1 2>&1 &
        first=$!
        "$@" >peer.2 2>&1 || true
        wait $first && return 1
        grep "$said" peer.1
        grep "$said" peer.2
    }
    disagree 'has --driver' peer 2 2 --driver siw -- true
    disagree 'knows of . hosts, this one of .' peer 2 3 -- true
    cat >as <<'END'
exec ip netns exec peer2 env TMPDIR="$1/own" HOME="$1/own" "$1/usr/bin/softrdma" run -q --as 1 --peer 10.47.99.1 -- true
END
    disagree 'give each its number with --as' sh as "$place"
}

@test "on: a host of another run is not to be reached by it" {
    # shellcheck disable=SC2016
    together 2 -- sh -c 'on $((3 - SOFTRDMA_HOST)) true; [ $? = 2 ] && on $SOFTRDMA_HOST true'
    grep "host 2 is another softrdma run's" peer.1
}

@test "nonsense from a peer's address, and frames from elsewhere, change nothing" {
    cat >nonsense.py <<'END'
import random, socket, sys, time
number, seconds = int(sys.argv[1]), float(sys.argv[2])
ends = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
if number == 2:  # the address and port of the peer itself
    ends[0].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    ends[0].bind(("10.47.99.2", 4799))
random.seed(number)
until = time.monotonic() + seconds
while time.monotonic() < until:
    for end in ends:
        kind = random.choice([b"h", b"b", b"f\0", b"f\1", b"f\7", b"h[[[", b'h{"host":{}}', b"h" + b"[" * 5000, b"", b"x"])
        end.sendto(random.choice([b"softrdma1", b"", b"softrdma2"]) + kind + random.randbytes(random.randrange(200)), ("10.47.99.1", 4799))
    time.sleep(0.001)
END
    ip netns exec peer3 /usr/bin/python3 nonsense.py 3 10 3>&- & # from no peer
    ip netns exec peer2 /usr/bin/python3 nonsense.py 2 3 3>&- & # from where the peer will be
    nonsense=$!
    # shellcheck disable=SC2016
    peer 1 2 -- "$place/carry" server 198.19.1.1 >peer.1 2>&1 &
    first=$!
    wait $nonsense
    peer 2 2 -- "$place/carry" client 198.19.1.1
    wait $first || { cat peer.1 && false; }
    grep 'bytes verified' peer.1
}

@test "killed at random moments, nothing is left, and its peer ends" {
    export TMPDIR=$place/own
    for _ in {1..5}; do
        moment=$((RANDOM % 25))
        peer 1 2 --wait 4 -- sleep 3 >peer.1 2>&1 &
        first=$!
        peer 2 2 --wait 4 -- sleep 3 >peer.2 2>&1 &
        sleep $((moment / 10)).$((moment % 10))
        pkill -KILL -o -f 'softrdma run -q --as 2' || true
        wait $first || true
        wait
        awaited 10 nothing_left || {
            echo "after $moment tenths of a second: $(left_over)"
            return 1
        }
    done
}
