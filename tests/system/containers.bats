#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Two containers of podman's, each with a network namespace and, by `softrdma cdi`, one device; in them
# a user without capabilities. Their root is that of Debian 13 (CONTAINER_ROOT), or this machine's.
# Run by ci/stages: softrdma run --in qemu --kernel 7.2 --driver rxe|siw -- bats tests/system/containers.bats

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/lib.bash"

one=198.19.9.1 two=198.19.9.2
driver=${SOFTRDMA_DEVICE%%[0-9]*}
softrdma=$BATS_TEST_DIRNAME/../../scripts/softrdma
memory=/mnt/podman # containers are of memory, like all else in a guest
LIMIT=240          # what takes a second elsewhere takes ten on an emulated machine

setup_file() {
    local number
    rdma link delete "$SOFTRDMA_DEVICE" # it is in no container's namespace
    for number in 1 2; do ip netns add "box$number"; done
    ip link add wire1 netns box1 type veth peer name wire2 netns box2
    for number in 1 2; do
        ip -n "box$number" address add "198.19.9.$number/24" dev "wire$number"
        ip -n "box$number" link set lo up
        ip -n "box$number" link set "wire$number" up
    done
    for number in 1 2; do
        ip netns exec "box$number" rdma link add "dev$number" type "$driver" netdev "wire$number"
    done
    "$softrdma" cdi --output /etc/cdi/softrdma.json
    mkdir -p $memory
    mount -t tmpfs tmpfs $memory
    mkdir $memory/programs
    cp -L "$BUILD"/release/tools/{coherdma,datping/datping} \
        "$BUILD"/release/udapl/{libdaplcoherdma.so.2,registry/libdat2.so.2} \
        "$BUILD/release/ibverbs-glue/libcoherdma.so.1" $memory/programs
}

teardown() {
    pod rm --force --time 0 server &>"$BATS_TEST_TMPDIR/rm" || cat "$BATS_TEST_TMPDIR/rm"
}

pod() {
    podman --root /mnt/podman/images --runroot /run/podman.test --storage-driver vfs \
        --cgroup-manager cgroupfs --events-backend none "$@"
}

# box NUMBER [OPTION...] -- COMMAND...: in a container with the device of that number, as user 1000.
box() {
    local number=$1 options=()
    shift
    while [[ $1 != -- ]]; do
        options+=("$1")
        shift
    done
    shift
    pod run --network "ns:/run/netns/box$number" --device "softrdma.alt/rdma=dev$number" --user 1000 \
        --workdir /tmp "${options[@]}" --rootfs "${ROOT:-$CONTAINER_ROOT}:O" "$@"
}
# With the programs of this build, in this machine's root: they need its libraries.
ours() { ROOT=/ box "$1" --volume /mnt/podman/programs:/opt:ro --env LD_LIBRARY_PATH=/opt "${@:2}"; }
export -f box ours pod

# in_time COMMAND...: with a limit, and its output on the log.
in_time() {
    run -0 timeout $LIMIT bash -c '"$@"' - "$@"
    echo "$output"
}
# serving PORT BOX COMMAND...: container 2 is the server, and listens.
serving() {
    "$2" 2 --detach --name server "${@:3}" >/dev/null
    awaited 120 listens "$1" || { pod logs server && return 1; }
}
served() { # it has ended by itself, and well
    local status
    status=$(timeout $LIMIT bash -c 'pod wait server')
    pod logs server >"$BATS_TEST_TMPDIR/server.out" 2>&1
    [[ $status == 0 ]] || { tail -n 20 "$BATS_TEST_TMPDIR/server.out" && return 1; }
}

pings() { # judged by what it prints: see tripped in lib.bash
    serving 7174 box -- sh -c "rping -s -a $two -C 20 -V -S 1000; true"
    in_time box 1 --rm -- sh -c "rping -c -a $two -C 20 -V -v -S 1000; true"
    [[ $(grep -ac '^ping data' <<<"$output") == 20 ]]
    served
    grep -qa '^server DISCONNECT EVENT' "$BATS_TEST_TMPDIR/server.out"
}

@test "a container has its own device's nodes and no other, and its user no capability" {
    in_time box 1 --rm -- sh -c 'id -u; ls /dev/infiniband; grep CapEff /proc/self/status; ibv_devices | tail -n +3'
    [[ ${lines[0]} == 1000 && ${lines[1]} == rdma_cm && ${lines[2]} == uverbs* ]]
    [[ ${lines[3]} =~ ^CapEff:[[:space:]]*0+$ && ${lines[4]} =~ ^\ *dev1[[:space:]] && ${#lines[@]} == 5 ]]
}

@test "nor can its root make the other one's node, or take its address" {
    local node
    node=$(grep -lx dev2 /sys/class/infiniband_verbs/*/ibdev)
    # shellcheck disable=SC2046 # two numbers
    run -1 box 1 --rm --user 0 -- mknod /tmp/node c $(tr : ' ' <"${node%/*}/dev")
    [[ $output == *'Operation not permitted'* ]]
    run box 1 --rm -- rping -s -a $two
    [[ $status != 0 && $output == *'Cannot assign requested address'* ]]
}

@test "rping from one container to the other" { pings; }

@test "ib_write_bw" {
    local own='Correlation coefficient|Failed to connect RDMA CM events' # faults of its own, see perftested
    for _ in 1 2 3 4 5; do
        serving 18515 box -- ib_write_bw -R -n 200 -s 4096 --bind_source_ip $two
        run timeout $LIMIT bash -c "box 1 --rm -- ib_write_bw -R -n 200 -s 4096 --bind_source_ip $one $two"
        echo "$output"
        grep -qE "$own" <<<"$output" || break
        pod rm --force --time 0 server
    done
    [[ $status == 0 ]]
    grep -qE '^ *4096 +200 +[0-9.]+' <<<"$output"
    served
}

@test "datping" {
    serving 7175 ours -- /opt/datping -s -I dev2 --once
    in_time ours 1 --rm -- /opt/datping $two -m all -c 10 -S 4097
    [[ ${lines[0]} == "DATPING $two: 4097 bytes, verified" && ${lines[1]} == "IA dev1 ($one)"* ]]
    [[ $output == *'40 rounds'*'all data right'* ]]
    served
    grep -q 'rounds: 40, wrong: 0$' "$BATS_TEST_TMPDIR/server.out"
}

@test "little memory may be locked: what programs say, and what the doctor says to type" {
    local little=(--ulimit memlock=65536:65536)
    run box 1 --rm "${little[@]}" -- rping -c -a $two -S 60000 -C 1
    [[ $status != 0 && $output == *'rdma_buf reg_mr failed'* ]]
    run -0 ours 1 --rm "${little[@]}" -- sh -c '/opt/coherdma doctor; true'
    [[ $output == *'Pinned memory: only 64 KiB may be pinned'*'docker run --ulimit memlock=-1'* ]]
    serving 7175 ours -- /opt/datping -s -I dev2 --once
    run -1 ours 1 --rm "${little[@]}" -- /opt/datping $two -S 1M
    echo "$output"
    [[ $output == *'cannot register 1048576 bytes with dev1: '*'ulimit -l'* ]]
    in_time ours 1 --rm --ulimit memlock=-1:-1 -- /opt/datping $two -S 1M -c 2
    [[ $output == *'all data right'* ]]
    served
}

@test "with this machine's provider, an image that has none is served by it" {
    COHERDMA_PROVIDER=$BUILD/release/provider/libcoherdma-rdmav34.so \
        "$softrdma" cdi --with-provider --output /etc/cdi/softrdma.json
    run ! ls "$CONTAINER_ROOT"/usr/lib/*/libibverbs/libcoherdma-*
    in_time box 1 --rm --env VERBS_LOG_LEVEL=3 --env VERBS_LOG_FILE=/tmp/verbs -- \
        sh -c 'ibv_devinfo; cat /tmp/verbs; echo >/usr/lib/coherdma/libcoherdma-rdmav34.so || true'
    [[ $output == *dev1*'dev1 is served by coherdma'*'Read-only file system'* ]]
    pings
}

@test "a device that is gone, and none at all" {
    rdma link delete dev1
    run ! box 1 --rm -- true
    [[ $output == */dev/infiniband/uverbs* ]]
    "$softrdma" cdi --output /etc/cdi/softrdma.json
    run ! box 1 --rm -- true
    [[ $output == *'softrdma.alt/rdma=dev1'* ]]
    rdma link delete dev2
    run -77 "$softrdma" cdi
    [[ $output == 'softrdma: there is no RDMA device here; make one: sudo softrdma up' ]]
}

# Else each container's device could be in its namespace alone. See RDMA and namespaces in softrdma(1).
@test "no soft device can be kept to a namespace" {
    local number
    for number in 1 2; do ip netns delete "box$number"; done
    awaited 20 rdma system set netns exclusive
    ip netns add box1
    ip -n box1 link add only type dummy
    ip -n box1 link set only up
    ip netns exec box1 rdma link add dev1 type "$driver" netdev only
    run ! rdma dev set dev1 netns box1
    [[ $output == *'Operation not supported'* ]]
}
