#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# coherdma selftest with soft devices: nothing is stale, unless a device that is not coherent is emulated; then data is
# stale where it lacks a sync. Needs a softrdma guest with both drivers.

# shellcheck disable=SC2154 # bats' run sets stderr
bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"

tool=$BUILD/tools/coherdma
LINES=8192 # that each experiment checks

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    unset RDMAV_DRIVERS COHERDMA_EMULATE COHERDMA_EMULATE_LOCAL_BUFFERS
    export COHERDMA_EMULATE_OPTIONS=nostacks
}
teardown() {
    ip address replace "$(device_fact siw ADDRESS)/24" dev "$(device_fact siw NETDEV)"
    local pid
    if [[ -e pids ]]; then
        while read -r pid; do if kill -0 "$pid" 2>/dev/null; then kill -KILL "$pid"; fi; done <pids
    fi
    if [[ -e /sys/class/infiniband/extra ]]; then rdma link delete extra; fi
    if [[ -e /sys/class/net/extra-netdev ]]; then ip link delete extra-netdev; fi
}

# stale PATH: what is stale of each experiment of the report, as "none=0 ... full=0".
stale() {
    jq -r --arg path "$1" '[.experiments[] | select(.path == $path and .problem == "") | "\(.sync)=\(.stale)"] |
        join(" ")' report
}
# expect_stale PATH VALUE...
expect_stale() {
    local actual
    actual=$(stale "$1")
    [[ $actual == "${*:2}" ]] || {
        echo "$1: $actual, not ${*:2}"
        return 1
    }
}
NOTHING_OF_READS='none=0 fences=0 full=0' NOTHING_OF_WRITES='none=0 fences=0 before_only=0 after_only=0 full=0'

# listen_on DEVICE OPTION...: its pid is in $listener, the address that it prints in $address.
listen_on() {
    empty_output listener
    "$tool" selftest "$1" --listen "${@:2}" >listener.out 2>&1 3>&- &
    listener=$!
    echo $listener >>pids # that teardown ends
    wait_for_output listener '^coherdma selftest DEVICE --peer '
    address=$(sed -n 's/^coherdma selftest DEVICE --peer //p' listener.out)
}
start_listener() { # DRIVER OPTION...
    listen_on "$(device_fact "$1" DEVICE)" "${@:2}"
}
end_listener() {
    kill -INT "$listener"
    wait "$listener"
}

expect_coherent() { # DRIVER
    run -0 --separate-stderr "$tool" selftest "$(device_fact "$1" DEVICE)" --json
    echo "$output" >report
    [[ -z $stderr && $(jq -r .conclusion report) == agrees ]]
    for path in peer_read own_write; do expect_stale $path none=0 fences=0 no_fences=0 full=0; done
    for path in peer_write own_read; do
        expect_stale $path none=0 fences=0 before_only=0 after_only=0 no_fences=0 full=0
    done
    [[ $(jq '[.experiments[].lines] | unique[]' report) == "$LINES" && $(jq '.experiments | length' report) == 20 ]]
    grep -q 'without any DMA' report
}
@test "rxe: nothing is stale, which agrees with the rules" { expect_coherent rxe; }
@test "siw: nothing is stale, which agrees with the rules" { expect_coherent siw; }

# emulated DRIVER MODE: the report in JSON of an emulated device.
emulated() {
    RDMAV_DRIVERS=$BUILD/provider/libcoherdma:$BUILD/provider/libcoherdma-observers COHERDMA_EMULATE=$2 \
        run -0 --separate-stderr "$tool" selftest "$(device_fact "$1" DEVICE)" --json "${@:3}"
    echo "$output" >report
    [[ $(jq -c '[.device.emulated, .device.coherency]' report) == '[true,"non-coherent"]' ]]
    grep -q 'only the emulation was' report
}

# What the emulation has in each mode. A modified line that the device writes is in conflict: the program's data wins,
# so that a sync after the transfer alone does not help. After a sync before the transfer alone, the line is clean, and
# stale when the device has written it: mode poison overwrites it then, in the part where old and new data differ.
ALL_OF_READS="none=$LINES fences=$LINES full=0"
ALL_OF_WRITES="none=$LINES fences=$LINES before_only=$LINES after_only=$LINES full=0"

expect_all_stale() { # DRIVER MODE
    local path
    emulated "$1" "$2"
    [[ $(jq -r .conclusion report) == agrees ]]
    expect_stale peer_read "$ALL_OF_READS"
    expect_stale peer_write "$ALL_OF_WRITES"
    # By default the emulation syncs the memory of own requests.
    expect_stale own_write "$NOTHING_OF_READS"
    expect_stale own_read "$NOTHING_OF_WRITES"
    COHERDMA_EMULATE_LOCAL_BUFFERS=program emulated "$1" "$2"
    for path in peer_read own_write; do expect_stale $path "$ALL_OF_READS"; done
    for path in peer_write own_read; do expect_stale $path "$ALL_OF_WRITES"; done
    [[ $(jq -c '[.experiments[] | select(.other != 0) | .sync] | unique' report) == "${3:-[]}" ]]
}
@test "rxe: mode stale: each access without a full sync has stale lines" { expect_all_stale rxe stale; }
@test "siw: mode stale: each access without a full sync has stale lines" { expect_all_stale siw stale; }
@test "rxe: mode poison: each access without a full sync has stale lines" {
    expect_all_stale rxe poison '["before_only"]'
}
@test "siw: mode poison: each access without a full sync has stale lines" {
    expect_all_stale siw poison '["before_only"]'
}

expect_some_stale() { # DRIVER: mode evict moves some lines at random moments, as a cache does
    COHERDMA_EMULATE_LOCAL_BUFFERS=program emulated "$1" evict:1
    [[ $(jq -r .conclusion report) == agrees ]]
    jq -e '.experiments | all(if .sync == "full" or .problem != "" then .stale == 0 else .stale > 0 end)' report
    jq -e --argjson lines $LINES '[.experiments[] | select(.sync == "before_only") | .stale < $lines] | any' report
}
@test "rxe: mode evict: accesses without a full sync have some stale lines" { expect_some_stale rxe; }
@test "siw: mode evict: accesses without a full sync have some stale lines" { expect_some_stale siw; }

expect_nothing_concluded() { # DRIVER
    COHERDMA_EMULATE_LOCAL_BUFFERS=program emulated "$1" passthrough
    [[ $(jq -r .conclusion report) == cannot_tell && $(jq '[.experiments[].stale] | add' report) == 0 ]]
    grep -q 'may be needless' report
}
@test "rxe: mode passthrough: nothing is stale, which proves nothing" { expect_nothing_concluded rxe; }
@test "siw: mode passthrough: nothing is stale, which proves nothing" { expect_nothing_concluded siw; }

@test "line sizes other than the CPU's are counted" {
    COHERDMA_EMULATE_LINE=256 emulated rxe stale --rounds 2
    expect_stale peer_read none=512 fences=512 full=0
    [[ $(jq -c '[.line_size, .lines_per_round, .rounds]' report) == '[256,256,2]' ]]
}

expect_peer() { # DRIVER
    start_listener "$1"
    run -0 --separate-stderr "$tool" selftest "$(device_fact "$1" DEVICE)" --peer "$address" --json
    echo "$output" >report
    [[ -z $stderr && $(jq -c '[.peer, .conclusion]' report) == '[true,"agrees"]' ]]
    [[ $(jq -c '[.experiments[].path] | unique' report) == '["own_read","own_write"]' ]]
    # The listener's device is not emulated, so only what this side does not sync is stale.
    COHERDMA_EMULATE_LOCAL_BUFFERS=program emulated "$1" stale --peer "$address"
    expect_stale own_write "$ALL_OF_READS"
    expect_stale own_read "$ALL_OF_WRITES"
    end_listener
    [[ $(grep -c '^A peer was served' listener.out) == 2 ]]
}
@test "rxe: own requests are tested with a peer" { expect_peer rxe; }
@test "siw: own requests are tested with a peer" { expect_peer siw; }

expect_coherency_of_listener_irrelevant() { # DRIVER: an emulated listener
    RDMAV_DRIVERS=$BUILD/provider/libcoherdma:$BUILD/provider/libcoherdma-observers COHERDMA_EMULATE=stale start_listener "$1" --once
    run -0 --separate-stderr "$tool" selftest "$(device_fact "$1" DEVICE)" --peer "$address" --json
    [[ $(jq -r .conclusion <<<"$output") == agrees ]]
    wait "$listener"
}
@test "rxe: the listener need not be coherent" { expect_coherency_of_listener_irrelevant rxe; }
@test "siw: the listener need not be coherent" { expect_coherency_of_listener_irrelevant siw; }

expect_peer_loss() { # DRIVER
    start_listener "$1"
    empty_output client
    "$tool" selftest "$(device_fact "$1" DEVICE)" --peer "$address" --rounds 1000000 >client.out 2>&1 3>&- &
    client=$!
    wait_for_output listener '^A peer has connected'
    kill -KILL "$listener"
    status=0
    wait "$client" || status=$?
    [[ $status == 1 ]]
    grep -q "^coherdma: $(device_fact "$1" DEVICE): the peer has ended the connection" client.out
    grep -q '^CANNOT TELL$' client.out
}
@test "rxe: a peer that ends is an error" { expect_peer_loss rxe; }
@test "siw: a peer that ends is an error" { expect_peer_loss siw; }

@test "Ctrl-C ends the experiments and prints the report; the listener goes on" {
    start_listener rxe
    empty_output client
    "$tool" selftest "$(device_fact rxe DEVICE)" --peer "$address" --rounds 1000000 >client.out 2>client.err 3>&- &
    client=$!
    wait_for_output listener '^A peer has connected'
    kill -INT "$client"
    status=0
    wait "$client" || status=$?
    [[ $status == 1 ]]
    grep -q '^Ended early: interrupted$' client.out
    run -0 "$tool" selftest "$(device_fact rxe DEVICE)" --peer "$address"
    end_listener
}

expect_foreign_refused() { # DRIVER: rping, in both roles
    start_listener "$1"
    run timeout 60 rping -c -a "$address" -p 18530 -C 1
    [[ $status != 0 ]]
    wait_for_output listener 'a peer was not served: the peer is not a coherdma selftest'
    run -0 "$tool" selftest "$(device_fact "$1" DEVICE)" --peer "$address"
    end_listener
    rping -s -a "$(device_fact "$1" ADDRESS)" -p 7181 >/dev/null 2>&1 3>&- &
    server=$!
    wait_until is_listening 7181
    run -1 --separate-stderr "$tool" selftest "$(device_fact "$1" DEVICE)" --peer "$(device_fact "$1" ADDRESS):7181"
    if kill -0 "$server" 2>/dev/null; then kill "$server"; fi
    [[ $stderr == *'cannot connect to the peer: the peer is not a coherdma selftest'* ]]
}
@test "rxe: a peer that is another program is refused" { expect_foreign_refused rxe; }
@test "siw: a peer that is another program is refused" { expect_foreign_refused siw; }

@test "without a listener: an error, and a report without experiments" {
    for driver in rxe siw; do
        run -1 --separate-stderr "$tool" selftest "$(device_fact $driver DEVICE)" \
            --peer "$(device_fact $driver ADDRESS)"
        [[ $stderr == *'cannot connect to the peer: refused; does coherdma selftest --listen run there'* ]]
        [[ $output == *$'\nCANNOT TELL\n'*'No experiment was made: '* && $output == *$'\n> software '* ]]
    done
    run -1 --separate-stderr "$tool" selftest rxe0 --peer 'no such host'
    [[ $stderr == *'cannot connect to the peer: '* ]]
}

@test "a device that cannot connect to itself: a report, and a pointer to --peer" {
    ip address flush dev "$(device_fact siw NETDEV)"
    run -1 --separate-stderr "$tool" selftest siw0
    [[ $stderr == *'cannot connect the device to itself: looking for an address of the device'*--peer* ]]
    [[ $output == *$'\nCANNOT TELL\n'* ]]
    run -1 --separate-stderr "$tool" selftest siw0 --listen
    [[ $stderr == *'looking for an address of the device'* ]]
}

@test "the text has 80 columns, and the report names neither host nor network" {
    local secret
    for driver in rxe siw; do
        run -0 "$tool" selftest "$(device_fact $driver DEVICE)"
        for line in "${lines[@]}"; do ((${#line} <= 80)) || { echo "$line" && return 1; }; done
        [[ $output == *$'\nCONCLUSION\nAGREES\n'* && ${lines[-1]} == *'docs/hardware.md.' ]]
        run -0 "$tool" selftest "$(device_fact $driver DEVICE)" --json
        for secret in "$(uname -n)" "$(device_fact $driver ADDRESS)" /sys/class/net/*/address \
            /sys/class/infiniband/*/ports/1/gids/0 /sys/class/infiniband/*/node_guid; do
            [[ ! -e $secret ]] || secret=$(<"$secret")
            [[ -n $secret && $output != *"$secret"* ]] || { echo "in the report: $secret" && return 1; }
        done
    done
}

@test "a declared coherency is compared with what is seen" {
    COHERDMA_COHERENT=rxe0=no run -0 "$tool" selftest rxe0
    [[ $output == *$'\nCANNOT TELL\n'*'may be needless'* ]]
    # An emulated device is not coherent whatever is declared.
    COHERDMA_COHERENT=rxe0=yes emulated rxe stale
    [[ $(jq -r .conclusion report) == agrees ]]
}

@test "a device that the process cannot open: the rules only" {
    chmod 0600 /dev/infiniband/uverbs*
    run -1 --separate-stderr as_nobody "$tool" selftest rxe0
    chmod 0666 /dev/infiniband/uverbs*
    [[ $stderr == *'libibverbs cannot open the device; see: coherdma doctor'* && $output == *$'\n> software '* ]]
    [[ $output == *'Not read: no hardware in sysfs: a software device does no DMA'* ]]
    chmod 0600 /dev/infiniband/uverbs*
    run -1 --separate-stderr as_nobody "$tool" selftest rxe0 --listen
    chmod 0666 /dev/infiniband/uverbs*
    [[ -z $output && $stderr == *'libibverbs cannot open the device; see: coherdma doctor'* ]]
}

# The kernel waits with the removal until no process has an object of the device.
add_extra_device() { # DRIVER: with an interface of its own
    ip link add extra-netdev type dummy
    ip address add 198.18.251.1/24 dev extra-netdev
    ip link set extra-netdev up
    rdma link add extra type "$1" netdev extra-netdev
}
start_client() { # OPTION...: of extra; for so many rounds that it does not end by itself
    empty_output client
    "$tool" selftest extra --rounds 1000000 "$@" >client.out 2>&1 3>&- &
    client=$!
    echo $client >>pids
}
has_connected() { [[ $(rdma resource show qp | grep -c ' extra/.* type RC state RTS ') == "$1" ]]; } # NUMBER OF QPs
is_gone() { [[ ! -e /sys/class/infiniband/extra ]]; }
remove_extra_device() { # COMMAND... in the background, since no signal ends it while it waits
    "$@" 3>&- &
    WAIT_LIMIT=60 wait_until is_gone
}
expect_removed() { # PID OUTPUT
    local status=0
    wait "$1" || status=$?
    [[ $status == 1 ]]
    grep -q '^coherdma: .*the device was removed$' "$2"
}
expect_end_at_removal() { # DRIVER
    add_extra_device "$1"
    listen_on extra
    remove_extra_device rdma link delete extra
    expect_removed "$listener" listener.out
    ip link delete extra-netdev

    add_extra_device "$1"
    listen_on extra
    start_client --peer "$address"
    wait_for_output listener '^A peer has connected'
    remove_extra_device rdma link delete extra
    expect_removed "$listener" listener.out
    wait "$client" || true # it sees the removal or the listener's end first
    grep -Eq '^coherdma: extra: the (device was removed|peer has ended)' client.out
    ip link delete extra-netdev

    add_extra_device "$1"
    start_client
    wait_until has_connected 2
    remove_extra_device rdma link delete extra
    expect_removed "$client" client.out
    grep -q '^Ended early: the device was removed$' client.out
    ip link delete extra-netdev

    add_extra_device "$1"
    start_client
    wait_until has_connected 2
    remove_extra_device ip link delete extra-netdev
    expect_removed "$client" client.out
}
@test "rxe: the device is removed: its listener, peer and experiments end" { expect_end_at_removal rxe; }
@test "siw: the device is removed: its listener, peer and experiments end" { expect_end_at_removal siw; }

expect_no_answer() { # DRIVER: from an address that swallows what is sent there
    local netdev silent
    netdev=$(device_fact "$1" NETDEV)
    silent=$(device_fact "$1" ADDRESS)
    silent=${silent%.*}.77
    ip neighbor replace "$silent" lladdr 02:00:00:00:00:77 dev "$netdev" nud permanent
    run -1 --separate-stderr timeout 60 "$tool" selftest "$(device_fact "$1" DEVICE)" --peer "$silent"
    ip neighbor delete "$silent" dev "$netdev"
    [[ $stderr == *': cannot connect to the peer: no answer' && $output == *$'\nCANNOT TELL\n'* ]]
}
@test "rxe: a peer that never answers is an error" { expect_no_answer rxe; }
@test "siw: a peer that never answers is an error" { expect_no_answer siw; }

@test "an address that stands for this machine is refused" {
    for address in 127.0.0.1 ::1 0.0.0.0 ::; do
        run -1 --separate-stderr "$tool" selftest rxe0 --peer "$address"
        [[ $stderr == *'cannot connect to the peer: it is this machine; to test the device with itself, omit --peer' ]]
    done
}

@test "no other program can connect to the experiments" {
    add_extra_device siw
    start_client
    wait_until has_connected 2
    [[ $(rdma resource show cm_id | grep -c ' extra/.* state LISTEN ') == 0 ]]
    kill -INT "$client"
    wait "$client" || [[ $? == 1 ]]
}

@test "of a name's addresses, the first problem is reported" {
    echo "$(device_fact rxe ADDRESS) both.test
fd00::99 both.test" >>/etc/hosts
    run -1 --separate-stderr "$tool" selftest rxe0 --peer both.test
    [[ $stderr == *'refused; does coherdma selftest --listen run there'* ]]
}

@test "a second listener has another port, at the same address" {
    local first first_address
    start_listener rxe
    first=$listener first_address=$address
    start_listener rxe
    [[ $address == "$first_address":* ]]
    run -0 "$tool" selftest "$(device_fact rxe DEVICE)" --peer "$address"
    end_listener
    listener=$first
    end_listener
}

@test "a listener whose memory cannot be locked says so before it waits" {
    limited() {
        ulimit -l 16
        as_nobody "$@"
    }
    run -1 --separate-stderr limited "$tool" selftest "$(device_fact rxe DEVICE)" --listen
    [[ -z $output && $stderr == *'registering memory, which ulimit -l limits: Cannot allocate memory' ]]
}

@test "no such device: status 1" {
    run -1 --separate-stderr "$tool" selftest rxe7
    [[ -z $output && $stderr == *"no RDMA device 'rxe7'"* ]]
}

@test "a report that cannot be written is an error" {
    run -1 --separate-stderr sh -c '"$1" selftest "$2" >/dev/full' sh "$tool" "$(device_fact rxe DEVICE)"
    [[ $stderr == 'coherdma: cannot write the output' ]]
}
