#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Two podman containers, each with a network namespace and a device of `softrdma cdi`. Programs run as a user
# without capabilities, in a root of Debian 13 ($BUILD/container_root) or in this machine's.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"

address1=198.19.9.1 address2=198.19.9.2
driver=${SOFTRDMA_DEVICE%%[0-9]*}
softrdma=$BATS_TEST_DIRNAME/../../../scripts/softrdma
tmpfs=/mnt/podman # a guest has no disk
WAIT_LIMIT=600    # an emulated machine is slow

setup_file() {
    local number
    rdma link delete "$SOFTRDMA_DEVICE" # it is in the initial namespace
    for number in 1 2; do ip netns add "container$number"; done
    ip link add wire1 netns container1 type veth peer name wire2 netns container2
    for number in 1 2; do
        ip -n "container$number" address add "198.19.9.$number/24" dev "wire$number"
        ip -n "container$number" link set lo up
        ip -n "container$number" link set "wire$number" up
    done
    for number in 1 2; do
        ip netns exec "container$number" rdma link add "dev$number" type "$driver" netdev "wire$number"
    done
    "$softrdma" cdi --output /etc/cdi/softrdma.json
    mkdir -p $tmpfs
    mount -t tmpfs tmpfs $tmpfs
    mkdir $tmpfs/programs
    cp -L "$BUILD"/tools/{coherdma,datping/datping} \
        "$BUILD"/udapl/{libdaplcoherdma.so.2,registry/libdat2.so.2} \
        "$BUILD/ibverbs-glue/libcoherdma.so.1" $tmpfs/programs
}

teardown() {
    pod rm --force --time 0 server &>"$BATS_TEST_TMPDIR/rm" || cat "$BATS_TEST_TMPDIR/rm"
}

pod() {
    podman --root /mnt/podman/images --runroot /run/podman.test --storage-driver vfs \
        --cgroup-manager cgroupfs --events-backend none "$@"
}

# in_container NUMBER [OPTION...] -- COMMAND...: runs the command in a container with device NUMBER, as user 1000.
in_container() {
    local number=$1 options=()
    shift
    while [[ $1 != -- ]]; do
        options+=("$1")
        shift
    done
    shift
    pod run --network "ns:/run/netns/container$number" --device "softrdma.alt/rdma=dev$number" --user 1000 \
        --workdir /tmp "${options[@]}" --rootfs "${ROOT:-$(realpath "$BUILD/container_root")}:O" "$@"
}
# in_container_with_build NUMBER [OPTION...] -- COMMAND...: the same with the programs of this build, in the root
# of this machine, which has their libraries.
in_container_with_build() { ROOT=/ in_container "$1" --volume /mnt/podman/programs:/opt:ro --env LD_LIBRARY_PATH=/opt "${@:2}"; }
export -f in_container in_container_with_build pod

# run_logged COMMAND...: as run -0, and prints the output.
run_logged() {
    run -0 bash -c '"$@"' - "$@"
    echo "$output"
}
# start_server PORT RUN COMMAND...: starts a server in container 2, and returns when it listens.
start_server() {
    "$2" 2 --detach --name server "${@:3}" >/dev/null
    wait_until is_listening "$1" || { pod logs server && return 1; }
}
# expect_server_end: waits for the server, whose status is 0.
expect_server_end() {
    local status
    status=$(pod wait server)
    pod logs server >"$BATS_TEST_TMPDIR/server.out" 2>&1
    [[ $status == 0 ]] || { tail -n 20 "$BATS_TEST_TMPDIR/server.out" && return 1; }
}

rping_between_containers() { # the output counts, not the status: see is_rping_exit_race
    start_server 7174 in_container -- sh -c "rping -s -a $address2 -C 20 -V -S 1000; true"
    run_logged in_container 1 --rm -- sh -c "rping -c -a $address2 -C 20 -V -v -S 1000; true"
    [[ $(grep -ac '^ping data' <<<"$output") == 20 ]]
    expect_server_end
    grep -qa '^server DISCONNECT EVENT' "$BATS_TEST_TMPDIR/server.out"
}

@test "a container has the nodes of its device only, and its user no capability" {
    run_logged in_container 1 --rm -- sh -c 'id -u; ls /dev/infiniband; grep CapEff /proc/self/status; ibv_devices | tail -n +3'
    [[ ${lines[0]} == 1000 && ${lines[1]} == rdma_cm && ${lines[2]} == uverbs* ]]
    [[ ${lines[3]} =~ ^CapEff:[[:space:]]*0+$ && ${lines[4]} =~ ^\ *dev1[[:space:]] && ${#lines[@]} == 5 ]]
}

@test "root in a container can neither make another device's node nor take its address" {
    local node
    node=$(grep -lx dev2 /sys/class/infiniband_verbs/*/ibdev)
    # shellcheck disable=SC2046 # two numbers
    run -1 in_container 1 --rm --user 0 -- mknod /tmp/node c $(tr : ' ' <"${node%/*}/dev")
    [[ $output == *'Operation not permitted'* ]]
    run in_container 1 --rm -- rping -s -a $address2
    [[ $status != 0 && $output == *'Cannot assign requested address'* ]]
}

@test "rping between two containers verifies 20 rounds" { rping_between_containers; }

@test "ib_write_bw between two containers completes" {
    local program="ib_write_bw -R -n 200 -s 4096 --bind_source_ip"
    retry_perftest write_bw_between_containers "$program $address2" "$program $address1 $address2"
    expect_output client '^ *4096 +200 +[0-9.]+'
}
write_bw_between_containers() { # SERVER CLIENT
    local status=0
    # shellcheck disable=SC2086 # several arguments
    start_server 18515 in_container -- $1
    # If one side fails because of a perftest bug, the other waits without end.
    timeout 240 bash -c "in_container 1 --rm -- $2" >"$BATS_TEST_TMPDIR/client.out" 2>&1 || status=$?
    ((status == 0)) && expect_server_end && return
    pod logs server >"$BATS_TEST_TMPDIR/server.out" 2>&1
    pod rm --force --time 0 server
    tail -n 20 "$BATS_TEST_TMPDIR"/*.out
    return 1
}

@test "datping between two containers verifies all modes" {
    start_server 7175 in_container_with_build -- /opt/datping -s -I dev2 --once
    run_logged in_container_with_build 1 --rm -- /opt/datping $address2 -m all -c 10 -S 4097
    [[ ${lines[0]} == "DATPING $address2: 4097 bytes, verified" && ${lines[1]} == "IA dev1 ($address1)"* ]]
    [[ $output == *'40 rounds'*'all data right'* ]]
    expect_server_end
    grep -q 'rounds: 40, wrong: 0$' "$BATS_TEST_TMPDIR/server.out"
}

@test "a small memlock limit: programs and the doctor report it, --ulimit fixes it" {
    local small_limit=(--ulimit memlock=65536:65536)
    run in_container 1 --rm "${small_limit[@]}" -- rping -c -a $address2 -S 60000 -C 1
    [[ $status != 0 && $output == *'rdma_buf reg_mr failed'* ]]
    run -0 in_container_with_build 1 --rm "${small_limit[@]}" -- sh -c '/opt/coherdma doctor; true'
    [[ $output == *'Pinned memory: only 64 KiB may be pinned'*'fix: docker run --ulimit memlock=-1'* ]]
    start_server 7175 in_container_with_build -- /opt/datping -s -I dev2 --once
    run -1 in_container_with_build 1 --rm "${small_limit[@]}" -- /opt/datping $address2 -S 1M
    echo "$output"
    [[ $output == *'cannot register 1048576 bytes with dev1: '*'ulimit -l'* ]]
    run_logged in_container_with_build 1 --rm --ulimit memlock=-1:-1 -- /opt/datping $address2 -S 1M -c 2
    [[ $output == *'all data right'* ]]
    expect_server_end
}

@test "cdi --with-provider: the plugin serves devices in an image that has none" {
    # The build folder may belong to a user: its plugin would be refused.
    mkdir /run/plugin
    cp "$BUILD"/provider/libcoherdma-rdmav*.so /run/plugin
    COHERDMA_PROVIDER=/run/plugin/libcoherdma-rdmav34.so \
        "$softrdma" cdi --with-provider --output /etc/cdi/softrdma.json
    run ! ls "$BUILD/container_root"/usr/lib/*/libibverbs/libcoherdma-*
    # The write to the plugin must fail: the message is checked.
    run_logged in_container 1 --rm --env VERBS_LOG_LEVEL=3 --env VERBS_LOG_FILE=/tmp/verbs -- \
        sh -c 'ibv_devinfo; cat /tmp/verbs; echo >/usr/lib/coherdma/libcoherdma-rdmav34.so || true'
    [[ $output == *dev1*'dev1 is served by coherdma'*'Read-only file system'* ]]
    rping_between_containers
}

@test "a removed device, or none: the container does not start, cdi reports it" {
    rdma link delete dev1
    run ! in_container 1 --rm -- true
    [[ $output == */dev/infiniband/uverbs* ]]
    "$softrdma" cdi --output /etc/cdi/softrdma.json
    run ! in_container 1 --rm -- true
    [[ $output == *'softrdma.alt/rdma=dev1'* ]]
    rdma link delete dev2
    run -77 "$softrdma" cdi
    [[ $output == 'softrdma: there is no RDMA device here; make one: sudo softrdma up' ]]
}

# If this becomes possible, a container can have its device in its own namespace: see softrdma(1), RDMA and namespaces.
@test "a soft device cannot be moved into a network namespace" {
    local number
    for number in 1 2; do ip netns delete "container$number"; done
    wait_until rdma system set netns exclusive
    ip netns add box1
    ip -n box1 link add dummy1 type dummy
    ip -n box1 link set dummy1 up
    ip netns exec box1 rdma link add dev1 type "$driver" netdev dummy1
    run ! rdma dev set dev1 netns box1
    [[ $output == *'Operation not supported'* ]]
}
