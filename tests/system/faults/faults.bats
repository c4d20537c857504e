#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# coherdma fault: programs written elsewhere see the errors that the scenario names.
# PROVIDER=stock: over the provider of rdma-core.

# shellcheck disable=SC2154 # bats' run sets stderr
bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"
tool=$BUILD/tools/coherdma

setup() {
    export TMPDIR=$BATS_TEST_TMPDIR COHERDMA_PROVIDER=$BUILD/provider/libcoherdma-rdmav34.so
    unset RDMAV_DRIVERS IBV_DRIVERS COHERDMA_SOFTRDMA
    [[ ${PROVIDER:-} == stock ]] || export RDMAV_DRIVERS=$BUILD/provider/libcoherdma
    DRIVER=${DRIVER:-rxe} server=''
    address=$(device_fact "$DRIVER" ADDRESS)
    device=$(device_fact "$DRIVER" DEVICE)
    # Connected by rdma_cm, as iWARP needs it, perftest may end by the event of the connection's end before it prints
    # a status.
    perftest_options=(-d "$device" -n 100) perftest_is_listening=is_listening_tcp
    if [[ $DRIVER == rxe ]]; then
        perftest_options+=(-x "$(device_fact rxe GID_INDEX)")
    else
        perftest_options+=(-R) perftest_is_listening=is_listening
    fi
}
teardown() {
    stop_server
    [[ -z $(find "$TMPDIR" -maxdepth 1 -name 'coherdma-fault.*') ]]
}

# start_server PORT COMMAND...: without faults.
start_server() {
    timeout 60 "${@:2}" >"$BATS_TEST_TMPDIR/server.out" 2>&1 3>&- &
    server=$!
    wait_until "${ready:-is_listening}" "$1"
}
start_perftest_server() { ready=$perftest_is_listening start_server 18515 "$@"; } # COMMAND...
stop_server() {
    [[ -z $server ]] || { kill "$server" 2>/dev/null || true; wait "$server" || true; }
    server=''
}
# expect_end_of_rping STATUS: its client has come to its end. There it closes a file that another thread of it reads;
# if that thread is quick, the status is 255.
expect_end_of_rping() {
    ((status == $1)) || [[ $status == 255 && $output${stderr:-} == *'rdma_get_cm_event: Bad file descriptor'* ]]
}
# run_perftest_client SCENARIO PROGRAM [OPTION...]: its client, with faults.
run_perftest_client() {
    local scenario=$1 command=("$2" "${perftest_options[@]}" "${@:3}")
    start_perftest_server "${command[@]}"
    run timeout 50 "$tool" fault "$scenario" -- "${command[@]}" "$address"
    stop_server
}
# expect_status PROGRAM TARGET NUMBER NAME: the program sees that status of its 3rd request of the kind.
expect_status() {
    run_perftest_client "3rd $2 fails $4" "$1"
    [[ $output == *"$2 number 3 of QP"*"was posted to fail"* ]]
    [[ $output == *"the completion of a $2 of QP"*"has the status $4"* ]]
    ((status != 0))
    [[ $output == *"Failed status $3:"* ]] || [[ $DRIVER == siw && $2 =~ send|receive ]]
}

@test "a Write fails with each status" {
    expect_status ib_write_bw write 12 retry_exc
    expect_status ib_write_bw write 10 rem_access
    expect_status ib_write_bw write 4 loc_prot
    expect_status ib_write_bw write 21 general
}
@test "a Read fails" { expect_status ib_read_bw read 11 rem_op; }
@test "a Send fails" { expect_status ib_send_bw send 13 rnr_retry_exc; }
@test "a receive fails" { expect_status ib_send_lat receive 1 loc_len; }
@test "an atomic fails" {
    [[ $DRIVER == rxe ]] || skip 'iWARP has no atomics'
    expect_status ib_atomic_bw atomic 9 rem_inv_req
}
@test "inline data fail, too" {
    run_perftest_client '3rd write fails retry_exc' ib_write_lat -s 8 -I 64
    [[ $output == *'Failed status 12:'* ]]
}

@test "calls fail" {
    run_perftest_client '1st ibv_reg_mr fails ENOMEM' ib_write_bw
    [[ $output == *'ibv_reg_mr number 1 failed with ENOMEM'* ]]
    ((status != 0))
    start_server 7174 rping -s
    run -24 "$tool" fault '1st ibv_create_cq fails EMFILE' -- rping -c -a "$address" -C 3
    [[ $output == *'ibv_create_cq failed'* && $output == *'failed with EMFILE'* ]] # its status is the errno
}

@test "a program is slow, and works" {
    start_server 7174 rping -s
    run timeout 20 "$tool" fault 'each ibv_post_recv takes 20ms' -- rping -c -v -a "$address" -C 3
    expect_end_of_rping 0
    [[ $output == *'ping data'* && $output == *'ibv_post_recv number 2 waited'* ]]
}

@test "requests of one queue pair, by its number or its peer" {
    local options=(-d "$device" -n 100 -R) perftest_options perftest_is_listening=is_listening
    perftest_options=("${options[@]}" -q 2)
    # The first QP is one that perftest creates to learn whether it can.
    run_perftest_client '3rd write of qp 3 fails retry_exc; 1st write of qp 4 fails fatal' ib_write_bw
    ((status != 0))
    [[ $output == *'write number 3 of QP'*'not done: 1st write of qp 4 fails fatal (counted: 0)'* ]]
    local numbers
    mapfile -t numbers < <(sed -nE 's/.*local address:.* QPN (0x[0-9a-f]+) .*/\1/p' <<<"$output")
    [[ $output =~ 'write number 3 of QP '(0x[0-9a-f]+) ]] && ((BASH_REMATCH[1] == numbers[1]))
    perftest_options=("${options[@]}")
    run_perftest_client "1st write to 192.0.2.99 fails fatal; 3rd write to $address fails retry_exc" ib_write_bw
    ((status != 0))
    [[ $output == *'has the status retry_exc'*'not done: 1st write to 192.0.2.99 fails fatal (counted: 0)'* ]]
}

@test "each request is late" {
    start_server 7174 rping -s
    local begin=$EPOCHREALTIME
    run timeout 20 "$tool" fault 'each request takes 50ms' -- rping -c -v -a "$address" -C 3
    expect_end_of_rping 0
    [[ $output == *'ping data'* && $output == *'gets the requests of queue pair number 1 late'* ]]
    # Two Sends of each ping wait for answers.
    ((${EPOCHREALTIME/./} - ${begin/./} > 6 * 50000))
}

@test "a receiver that is slow: its peer meets RNR" {
    [[ $DRIVER == rxe ]] || skip 'iWARP has no RNR'
    local counter=/sys/class/infiniband/$device/ports/1/hw_counters/rcvd_rnr_err before
    before=$(cat "$counter")
    "$tool" fault 'each ibv_post_recv takes 2ms' -- ib_send_bw "${perftest_options[@]}" -r 4 -s 64 \
        >"$BATS_TEST_TMPDIR/server.out" 2>&1 3>&- &
    server=$!
    wait_until is_listening_tcp 18515
    run -0 timeout 30 ib_send_bw "${perftest_options[@]}" -r 4 -s 64 "$address"
    wait "$server" && server=''
    (($(cat "$counter") > before))
}

@test "a device with lower limits" {
    run -0 "$tool" fault 'limit max_qp 3; limit max_sge 1; limit max_mr_size 4096' -- ibv_devinfo -v -d "$device"
    [[ $output =~ max_qp:[[:space:]]+3$'\n' && $output =~ max_sge:[[:space:]]+1$'\n' && $output =~ max_mr_size:[[:space:]]+0x1000$'\n' ]]
    run_perftest_client 'limit max_qp_wr 16' ib_write_bw -t 64
    ((status != 0))
    [[ $output == *'Unable to create QP'*'asked for max_qp_wr'* || $output == *'asked for max_qp_wr'* ]]
    run_perftest_client 'limit max_mr_size 4096' ib_write_bw -s 65536
    ((status != 0))
    [[ $output == *'failed with EINVAL: it asked for max_mr_size'* ]]
    start_server 7174 rping -s
    run timeout 20 "$tool" fault 'limit max_qp 1; limit max_cq 1; limit max_mr 9' -- rping -c -a "$address" -C 3
    expect_end_of_rping 0 # it is content with them
    [[ $output == *'the device told the program that max_qp is 1'* && $output != *'a call failed'* ]]
}

@test "the port really goes down, and is up again" {
    run timeout 20 "$tool" fault 'after 300ms port down for 500ms' -- timeout 2 ibv_asyncwatch -d "$device"
    [[ $output == *'event_type IBV_EVENT_PORT_ERR'*'event_type IBV_EVENT_PORT_ACTIVE'* ]]
    [[ $output == *"the port of $device ("*') is down'*'is up again'* ]]
    # Also if the command has ended before.
    run -3 timeout 20 "$tool" fault 'after 100ms port down' -- sh -c "ibv_devinfo -d $device >/dev/null; sleep 1; exit 3"
    [[ $output == *'is down'*'is up again'* ]]
    ibv_devinfo -d "$device" | grep PORT_ACTIVE
    # Overlapping ones end together; what is down already stays so.
    run -0 timeout 20 "$tool" fault 'after 100ms port down for 900ms; after 300ms port down for 100ms' -- \
        sh -c "ibv_devinfo -d $device >/dev/null; sleep 0.7; ibv_devinfo -d $device | grep PORT_DOWN"
    local netdev
    netdev=$(device_fact "$DRIVER" NETDEV)
    ip link set "$netdev" down
    run timeout 20 "$tool" fault 'port down for 100ms' -- sh -c "ibv_devinfo -d $device; sleep 0.5"
    [[ $output == *'it is down already'* && $(cat "/sys/class/net/$netdev/flags") =~ [02468ace]$ ]]
    ip link set "$netdev" up
    run timeout 20 setpriv --bounding-set=-net_admin --inh-caps=-net_admin -- \
        "$tool" fault 'port down' -- sh -c "ibv_devinfo -d $device; sleep 1"
    [[ $output == *PORT_ACTIVE*'did not go down: Operation not permitted'*'not done: port down'* ]]
}

@test "commands run at their time" {
    run -0 --separate-stderr timeout 20 "$tool" fault "after 100ms run printenv COHERDMA_OBSERVERS >$BATS_TEST_TMPDIR/env
        after 200ms run touch $BATS_TEST_TMPDIR/ran; after 300ms run sleep 100; after 100s run true" -- \
        sh -c "ibv_devinfo -d $device >/dev/null; sleep 1; test -e $BATS_TEST_TMPDIR/ran"
    [[ ! -s $BATS_TEST_TMPDIR/env ]] # it is no part of the program
    [[ $output == *'has started'*'ended with status 1'*'ended with status 0'*'ended by signal 15'* ]]
    [[ $output != *'not done: after 300ms run sleep 100'* && $output == *'not done: after 100s run true'* ]]
    # Without the folder of the logs nothing is known of the program, which goes on.
    run -3 "$tool" fault 'run true' -- sh -c 'rm -rf "$TMPDIR"/coherdma-fault.*; sleep 0.3; exit 3'
    # The program has none of the files of coherdma, and the arguments that it was given.
    run -0 --separate-stderr "$tool" fault 'run true' -- sh -c "ibv_devinfo -d $device >/dev/null; ls -l /proc/self/fd; sleep 0.5; test \"\$1\" = ''" sh ''
    [[ $output == *'->'* && $output != *.json* ]]
    # One that does not end by SIGTERM is killed, and none reads what is for the program.
    run -0 timeout 20 "$tool" fault 'run cat; run exec env --ignore-signal=TERM sleep 1000' -- \
        sh -c "ibv_devinfo -d $device >/dev/null; sleep 0.5; cat" <<<'for the program'
    [[ $output == 'for the program'*'sleep 1000'*'ended by signal 9'* ]]
    RDMAV_DRIVERS=$BUILD/provider/libcoherdma-observers COHERDMA_OBSERVERS=$BUILD/provider/libcoherdma-fault.so \
        COHERDMA_FAULTS='run true' run ! ibv_devinfo -d "$device"
    [[ $output == *"only coherdma fault can do this: 'run true'"* ]]
    run -2 "$tool" fault --act -- true
}

@test "the same seed gives the same faults, another one others" {
    local seed
    for seed in 1 1 2 3 4 5; do
        start_perftest_server ib_write_bw "${perftest_options[@]}"
        "$tool" fault --seed $seed --json --output "$BATS_TEST_TMPDIR/report" '5% of writes fail retry_exc' -- \
            ib_write_bw "${perftest_options[@]}" "$address" >/dev/null 2>&1 || true
        stop_server
        jq -r '[.seed, .events[0].number] | join(" ")' "$BATS_TEST_TMPDIR/report"
    done >"$BATS_TEST_TMPDIR/numbers"
    cat "$BATS_TEST_TMPDIR/numbers"
    [[ $(sort -u "$BATS_TEST_TMPDIR/numbers" | grep -c '^1 [0-9]') == 1 ]]
    (($(cut -d ' ' -f 2 "$BATS_TEST_TMPDIR/numbers" | sort -u | wc -l) > 1))
}

@test "only the program that is named" {
    # The server, which has the same scenario, has no faults.
    start_server 7174 rping -s -C 3
    run --separate-stderr "$tool" fault --only ib_write_bw '1st ibv_reg_mr fails ENOMEM' -- rping -c -a "$address" -C 3
    expect_end_of_rping 77
    [[ $stderr == *'no fault was made'* ]]
}

@test "asynchronous events come" {
    run timeout 20 "$tool" fault 'after 300ms event port_err; after 500ms event gid_change; event qp_fatal' -- \
        timeout 3 ibv_asyncwatch -d "$device"
    [[ $output == *'event_type IBV_EVENT_PORT_ERR'*'event_type IBV_EVENT_GID_CHANGE'* ]]
    [[ $output == *"event port_err of $device"*"event gid_change of $device"*"not done: event qp_fatal"* ]]
}

@test "a program need not read the events of a QP before it destroys that" {
    start_server 7174 rping -s
    run timeout 20 "$tool" fault 'each ibv_post_recv takes 20ms; after 50ms event qp_fatal; after 50ms event cq_err' -- \
        rping -c -a "$address" -C 10
    expect_end_of_rping 0
    [[ $output == *"event qp_fatal of $device"* && $output == *"event cq_err of $device"* ]]
}

@test "a fault that is not reached is said" {
    start_server 7174 rping -s -C 3
    run --separate-stderr "$tool" fault '900th send fails fatal' -- rping -c -a "$address" -C 3
    expect_end_of_rping 77
    [[ $stderr == *'the command did not come to what they name'* ]]
    [[ $output == *'not done: 900th send fails fatal (counted: 6)'* ]]
}

@test "without the tool, what is done is printed on standard error" {
    RDMAV_DRIVERS=$BUILD/provider/libcoherdma-observers COHERDMA_OBSERVERS=$BUILD/provider/libcoherdma-fault.so \
        COHERDMA_FAULTS='1st ibv_open_device fails EPERM' run ! ibv_devinfo -d "$device"
    [[ $output == *'coherdma: 1st ibv_open_device fails EPERM: ibv_open_device number 1 failed with EPERM'* ]]
    RDMAV_DRIVERS=$BUILD/provider/libcoherdma-observers COHERDMA_OBSERVERS=$BUILD/provider/libcoherdma-fault.so \
        COHERDMA_FAULTS='1st send falls' run ! ibv_devinfo -d "$device"
    [[ $output == *"'falls' is not understood"*'1st send falls'*'         ^'* ]]
}

@test "a wrong scenario is refused, with its column" {
    run -2 "$tool" fault 'each wrote fails fatal' -- true
    [[ ${lines[0]} == 'each wrote fails fatal' && ${lines[1]} == '     ^' && ${lines[2]} == *"'wrote' is not understood"* ]]
    printf '1st send fails fatal\n2nd sent fails fatal\n' >"$BATS_TEST_TMPDIR/scenario"
    run -2 "$tool" fault --file "$BATS_TEST_TMPDIR/scenario" -- true
    [[ $output == *"$BATS_TEST_TMPDIR/scenario:2:5: 'sent' is not understood"* ]]
    run -2 "$tool" fault '1st send fails fatal'
    printf '1st send fails fatal # \0\n' >"$BATS_TEST_TMPDIR/scenario"
    run -2 "$tool" fault --file "$BATS_TEST_TMPDIR/scenario" -- true
    [[ $output == *'has a zero byte'* ]]
    { echo '1st send fails fatal'; head -c 150000 /dev/zero | tr '\0' '#'; } >"$BATS_TEST_TMPDIR/scenario"
    run -2 "$tool" fault --file "$BATS_TEST_TMPDIR/scenario" -- true
    [[ $output == *'may have 100000 bytes'* ]]
    run -1 "$tool" fault --output /nowhere/report '1st send fails fatal' -- touch "$BATS_TEST_TMPDIR/ran"
    [[ $output == *'cannot write /nowhere/report'* && ! -e $BATS_TEST_TMPDIR/ran ]]
    run -2 "$tool" fault --fail-each --file "$BATS_TEST_TMPDIR/scenario" -- true
}

@test "a scenario in a file" {
    echo '1st ibv_open_device fails EPERM # the first' >"$BATS_TEST_TMPDIR/scenario"
    run ! "$tool" fault --file "$BATS_TEST_TMPDIR/scenario" -- ibv_devinfo -d "$device"
    [[ $output == *'ibv_open_device number 1 failed with EPERM'* ]]
}

@test "each call of a program fails once" {
    run -0 "$tool" fault --fail-each --limit 20 -- ibv_devinfo -d "$device"
    [[ $output == *'1st ibv_open_device fails ENOMEM'*'fails, status'*'calls: 0 crashes, 0 hangs'* ]]
    run -0 "$tool" fault --fail-each --errors EPERM,EAGAIN --limit 20 -- ibv_devinfo -d "$device"
    [[ $output == *'1st ibv_open_device fails EPERM'*'1st ibv_open_device fails EAGAIN'* ]]
    run -2 "$tool" fault --fail-each --errors ENOWAY -- true
    start_server 7174 rping -s -P
    run "$tool" fault --fail-each --limit 5 --json --output "$BATS_TEST_TMPDIR/report" -- rping -c -a "$address" -C 2
    jq -e '[.calls[].call] | index("rdma_resolve_addr") and index("rdma_resolve_route") and index("rdma_connect")' \
        "$BATS_TEST_TMPDIR/report"
    # ibv_post_send() is inlined into the program, whose calls it are.
    jq -e '[.calls[] | select(.call == "ibv_post_send")] | length > 1' "$BATS_TEST_TMPDIR/report"
    jq -e '[.calls[].place] | any(contains("verbs.h")) | not' "$BATS_TEST_TMPDIR/report"
    jq -e '[.calls[].call] | index("ibv_create_qp") and index("ibv_reg_mr") and index("rdma_create_id")' \
        "$BATS_TEST_TMPDIR/report"
    jq -e '.calls[] | select(.call == "ibv_create_qp") | .outcome == "fails"' "$BATS_TEST_TMPDIR/report"
    jq -e '.calls[] | select(.call == "ibv_destroy_cq") | .left.CQ == 1' "$BATS_TEST_TMPDIR/report"
}

@test "a program has its own status 124, and may be killed" {
    cat >"$BATS_TEST_TMPDIR/program" <<'END'
#!/bin/bash
ibv_devinfo -d "$1" >/dev/null && exit 0
[[ $2 == status ]] && exit 124
kill -KILL $$
END
    chmod +x "$BATS_TEST_TMPDIR/program"
    run -0 "$tool" fault --fail-each --limit 20 -- "$BATS_TEST_TMPDIR/program" "$device" status
    [[ $output == *'fails, status 124'*'calls: 0 crashes, 0 hangs'* ]]
    run -1 "$tool" fault --fail-each --limit 20 -- "$BATS_TEST_TMPDIR/program" "$device" killed
    [[ $output == *'crashes, status 137'*', 0 hangs'* ]]
}

@test "a signal ends the runs, and leaves the report of those that were made" {
    cat >"$BATS_TEST_TMPDIR/program" <<'END'
#!/bin/bash
ibv_devinfo -d "$1" >/dev/null && ibv_devinfo -d "$1" >/dev/null && exit 0
echo $$ >>"$2"
exec sleep 100
END
    chmod +x "$BATS_TEST_TMPDIR/program"
    local signal
    for signal in INT TERM; do
        # As from a terminal: to the process group.
        setsid env --default-signal=INT "$tool" fault --fail-each --limit 50 -- \
            "$BATS_TEST_TMPDIR/program" "$device" "$BATS_TEST_TMPDIR/pids.$signal" \
            >"$BATS_TEST_TMPDIR/report" 2>"$BATS_TEST_TMPDIR/log" 3>&- &
        wait_until test -s "$BATS_TEST_TMPDIR/pids.$signal"
        kill -"$signal" -- -$!
        wait $! && return 1
        cat "$BATS_TEST_TMPDIR/report" "$BATS_TEST_TMPDIR/log"
        [[ $(cat "$BATS_TEST_TMPDIR/report") == *'0 calls: 0 crashes'* ]]
        ! kill -0 "$(cat "$BATS_TEST_TMPDIR/pids.$signal")"
    done
}

@test "a receive fails only if a message comes" {
    start_server 7174 rping -s -C 3
    run --separate-stderr "$tool" fault '7th receive fails fatal' -- rping -c -a "$address" -C 3
    expect_end_of_rping 77
    [[ $output == *'receive number 7 of QP'*'not done: 7th receive fails fatal (counted: '* ]]
}

@test "what a process has done is known also if a signal ends it" {
    cat >"$BATS_TEST_TMPDIR/program.py" <<'END'
import os
import pyverbs.device
context = pyverbs.device.Context(name=os.environ["DEVICE"])
context.query_device()
os._exit(0)
END
    python3 -c 'import pyverbs.device' 2>/dev/null || skip 'no pyverbs (python3-pyverbs)'
    DEVICE=$device run -77 --separate-stderr "$tool" fault '1st ibv_reg_mr fails ENOMEM' -- python3 "$BATS_TEST_TMPDIR/program.py"
    [[ $stderr == *'the command did not come to what they name'* ]]
    [[ $output == *'1 process ended without a summary'* ]]
}

@test "the checker does not see what is changed" {
    start_perftest_server ib_write_bw "${perftest_options[@]}"
    run "$tool" check -- "$tool" fault '3rd write fails retry_exc' -- ib_write_bw "${perftest_options[@]}" "$address"
    [[ $output == *'has the status retry_exc'* ]]
    [[ $output != *local-key* ]]
}

@test "a crash and a hang are told apart" {
    cat >"$BATS_TEST_TMPDIR/program" <<'END'
#!/bin/bash
ibv_devinfo -d "$1" >/dev/null && exit 0
[[ $2 == hangs ]] && exec sleep 100
[[ $2 == ignores ]] && { [[ ! -e $0.once ]] || exit 1; } && touch "$0.once" && trap '' TERM && exec sleep 1000
kill -SEGV $$
END
    chmod +x "$BATS_TEST_TMPDIR/program"
    run -1 "$tool" fault --fail-each --limit 2 -- "$BATS_TEST_TMPDIR/program" "$device" crashes
    [[ $output == *'crashes, status 139'*', 0 hangs'* ]]
    run -1 "$tool" fault --fail-each --limit 2 -- "$BATS_TEST_TMPDIR/program" "$device" hangs
    [[ $output == *'1st ibv_open_device fails ENOMEM'*'hangs'*'calls: 0 crashes, '* ]]
    # One that ignores SIGTERM does not go on beside the next run.
    run -1 "$tool" fault --fail-each --limit 1 -- "$BATS_TEST_TMPDIR/program" "$device" ignores
    [[ $output == *', 0 unnoticed'* ]]
    run ! pgrep -f 'sleep 1000'
    run -1 "$tool" fault --fail-each -- false
    [[ $output == *'without a fault the command ends with status 1'* ]]
}
