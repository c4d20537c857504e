#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The wire between hosts that have a kernel each: its faults, and its capture, which tshark decodes.

bats_require_minimum_version 1.8.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"
source "$BATS_TEST_DIRNAME/../lib/caller.bash"

data_integrity=$BUILD/tests/system/lib/data_integrity
run_on_hosts() { softrdma run --in uml -q --hosts "$@"; }
require_tshark() { command -v tshark >/dev/null || skip 'tshark is not installed; try: ci/setup packages-wire'; }

# read_capture FILE OPTION...: prints what tshark does. As root it prints a warning.
read_capture() { tshark -r "$@" 2>/dev/null; }

# bad_frames FILE: prints frames without a fault that tshark cannot decode, or whose TCP checksum is wrong.
bad_frames() {
    # tshark takes some random payload for these protocols.
    local options=(--disable-protocol rpcordma --disable-heuristic eth_over_ib -o tcp.check_checksum:TRUE)
    # TCP may cut a retransmission otherwise than the first segment: tshark reports that as an error of reassembly, and
    # calls the frame a retransmission or out of order. It takes the checksum 0xffff, which equals 0, for wrong.
    local malformed='_ws.malformed && !_ws.malformed.reassembly'
    local wrong_checksum='tcp.checksum.status == "Bad" && tcp.checksum != 0xffff'
    read_capture "$1" "${options[@]}" -Y "(($malformed) || ($wrong_checksum)) && !frame.comment"
}

# expect_decoded FILE PROTOCOL: there are frames of the protocol, and none is bad but those with a fault.
expect_decoded() {
    [[ -n $(read_capture "$1" -Y "$2" | head -n 1) ]]
    run -0 bad_frames "$1"
    [[ -z $output ]]
    # The check finds frames that are cut off.
    editcap -s 57 -L "$1" cut.pcapng
    [[ -n $(bad_frames cut.pcapng | head -n 1) ]]
}

# expect_corrupted_found FILE: frames of TCP that the wire has corrupted are bad. A pcap file has no comments.
expect_corrupted_found() {
    editcap -F nsecpcap "$1" without_comments.pcap
    [[ -n $(bad_frames without_comments.pcap | head -n 1) ]]
}

num_pings=20
# shellcheck disable=SC2016 # expanded on the host
ping_host_2='
    on 2 rping -s -a $HOST2 -C $1 -V >server.out 2>&1 & until on 2 "$0" 7174; do sleep 0.05; done
    rping -c -a $HOST2 -C $1 -V -v; wait $!'
# run_pings OPTION...: on two hosts. Each ping is verified.
run_pings() { run_pings_with_status 0 "$@"; }
# run_pings_with_status STATUS OPTION...: softrdma exits with the status.
run_pings_with_status() {
    run "-$1" run_on_hosts 2 "${@:2}" -- sh -c "$ping_host_2" "$lib/is_listening" $num_pings
    [[ $(grep -c '^ping data' <<<"$output") == "$num_pings" ]]
}

# faults FILE: prints what happened to each frame of IPv4 as the sender sees it, ordered by stream and number.
faults() {
    read_capture "$1" -Y 'frame.comment && frame.packet_flags_direction == 2' -T fields -e frame.comment |
        tr ';' '\n' | grep 'IPv4' | sort -V
}

# bats test_tags=gate
@test "a capture under faults decodes, and the data of rping arrive whole, by rxe and by siw" {
    require_tshark
    for driver in rxe siw; do
        # With this seed each fault is among the first fifty frames of each direction.
        run_pings --driver $driver --loss 2% --duplicate 3% --reorder 3% --corrupt 3% --seed 249 --pcap $driver.pcapng
        run -0 read_capture $driver.pcapng -T fields -e frame.interface_name
        [[ $(sort -u <<<"$output") == $'softrdma-1\nsoftrdma-2' ]]
        run -0 read_capture $driver.pcapng -Y frame.comment -T fields -e frame.comment
        for fault in dropped duplicated 'a duplicate' 'held back' corrupted; do
            grep -q "$fault.*IPv4 frame [0-9]* of $driver from host" <<<"$output"
        done
    done
    expect_decoded rxe.pcapng infiniband.bth
    expect_decoded siw.pcapng iwarp_ddp_rdmap
    expect_corrupted_found siw.pcapng
}

@test "a capture of data_integrity under faults decodes, and every byte is verified, by rxe and by siw" {
    require_tshark
    for driver in rxe siw; do
        # shellcheck disable=SC2016
        run -0 run_on_hosts 2 --driver $driver --loss 1% --reorder 1% --duplicate 1% --corrupt 1% --pcap $driver.pcapng -- \
            sh -c 'on 2 "$0" server $HOST2 & "$0" client $HOST2 && wait $!' "$data_integrity"
        [[ $(grep -c 'bytes verified' <<<"$output") == 2 ]]
    done
    expect_decoded rxe.pcapng infiniband.bth
    expect_decoded siw.pcapng iwarp_ddp_rdmap
    expect_corrupted_found siw.pcapng
}

@test "the same seed gives the same frames the same faults, another one gives others" {
    require_tshark
    for name in first second other; do
        seed=11
        [[ $name != other ]] || seed=12
        run_pings --loss 3% --duplicate 5% --reorder 5% --seed $seed --pcap $name.pcapng
        # The number of later frames depends on the time: each run has the first of each direction.
        faults $name.pcapng | sed -nE 's/^ *(.* IPv4 frame ([0-9]+) .*)/\2 \1/p' | sort -n | awk '$1 <= 50' >$name
    done
    (($(wc -l <first) >= 5))
    diff first second
    run ! diff first other
}

@test "the seed of a run without one is printed" {
    run -0 softrdma run --in uml --hosts 2 --loss 1% -- true
    [[ $output =~ 'same ones again: --seed '[0-9]+ ]]
    run -0 softrdma run --in uml --hosts 2 --delay 1 --pcap wire.pcapng -- true
    [[ $output != *seed* ]]
}

@test "hosts that lose each frame do not reach each other" {
    # shellcheck disable=SC2016
    run -0 run_on_hosts 3 --loss 100% --pcap wire.pcapng -- sh -c '
        on 2 rping -s -a $HOST2 -C 1 >/dev/null 2>&1 & ! timeout 5 rping -c -a $HOST2 -C 1'
    require_tshark
    run -0 read_capture wire.pcapng -Y 'frame.packet_flags_direction == 1'
    [[ -z $output ]]
}

@test "a host sends no more than --rate, and loses nothing by it" {
    # shellcheck disable=SC2016
    run -0 run_on_hosts 2 --rate 50mbit --pcap wire.pcapng -- sh -c '
        on 2 ib_write_bw -d rxe2 -x 1 -n 200 >/dev/null 2>&1 &
        until on 2 grep -q ":4853 0*:0000 0A" /proc/net/tcp /proc/net/tcp6; do sleep 0.05; done
        ib_write_bw -d rxe1 -x 1 -n 200 $HOST2; wait $!'
    bandwidth=$(awk '$1 == 65536 { print $4 }' <<<"$output")
    awk -v bandwidth="$bandwidth" 'BEGIN { exit !(bandwidth > 0 && bandwidth * 8 * 1.048576 <= 50) }'
    require_tshark
    # The receiver has what the sender sent.
    for direction in 1 2; do
        read_capture wire.pcapng -Y "udp && frame.packet_flags_direction == $direction" -T fields -e udp.length | sort >$direction
    done
    cmp 1 2
}

@test "a file of --pcap is complete after a signal, and cannot be one that is not writable" {
    require_tshark
    # shellcheck disable=SC2016
    start_softrdma run --in uml -q --hosts 2 --pcap wire.pcapng -- sh -c '
        on 2 rping -s -P -a $HOST2 >/dev/null 2>&1 & until on 2 "$0" 7174; do sleep 0.05; done
        rping -c -a $HOST2 -C 3 -v; echo begun; exec sleep infinity' "$lib/is_listening"
    wait_until grep -q begun out
    kill -TERM "$pid"
    expect_status 143
    is_nothing_left
    read_capture wire.pcapng -Y infiniband >packets
    [[ -s packets ]]
    run -2 run_on_hosts 2 --pcap /no/such/folder/file -- true
    [[ $output == *"--pcap /no/such/folder/file: it cannot be written: No such file or directory" ]]
}

@test "a capture that cannot be written is an error, and the command runs on" {
    run_pings_with_status 1 --pcap /dev/full
    [[ $output == *'--pcap /dev/full: the capture is not complete: writing failed: No space left on device'* ]]
    run -5 run_on_hosts 2 --pcap /dev/full -- sh -c 'exit 5'
}

@test "a capture whose reader stops does not hang the end of the run" {
    mkfifo capture
    exec {reader}<>capture
    # shellcheck disable=SC2016
    start_softrdma run --in uml -q --hosts 2 --pcap capture -- sh -c '
        on 2 rping -s -a $HOST2 >/dev/null 2>&1 & until on 2 "$0" 7174; do sleep 0.05; done
        rping -c -a $HOST2 -S 60000 >/dev/null 2>&1; exec sleep infinity' "$lib/is_listening"
    # A page of the pipe may be full in part.
    is_full() { python3 -c 'import fcntl, sys
size, capacity = bytearray(4), fcntl.fcntl(0, 1032)  # F_GETPIPE_SZ
fcntl.ioctl(0, 0x541b, size)  # FIONREAD
sys.exit(int.from_bytes(size, sys.byteorder) < capacity * 3 / 4)' <&"$reader"; }
    wait_until is_full
    kill -TERM "$pid"
    expect_status 143
    grep -Fx "softrdma: --pcap $PWD/capture: the capture is not complete: its reader does not read on" err
    is_nothing_left
}

@test "a file that the command writes cannot be that of the capture" {
    run -2 run_on_hosts 2 --pcap /dev/stdout -- true
    [[ $output == *'--pcap /dev/stdout: it is the standard output, which the command writes; name another file'* ]]
}

@test "the kill of the switch between hosts ends the run with an error" {
    start_softrdma run --in uml -q --hosts 3 --pcap wire.pcapng -- sh -c 'echo begun; exec sleep infinity'
    wait_until grep -q begun out
    # The worker process has a child that is a softrdma, too.
    kill -KILL "$(pgrep -P "$(pgrep -P "$pid")" -f 'softrdma run --in uml')"
    expect_status 1
    grep -Fx "softrdma: the switch between the hosts has ended: it was killed by SIGKILL; --pcap $PWD/wire.pcapng: the capture is not complete" err
    is_nothing_left
}

@test "softrdma wire: a partition in one direction, from outside, delays a connection until it ends" {
    mkfifo steps
    # shellcheck disable=SC2016
    "$program" run --in uml -q --hosts 2 --wire --pcap wire.pcapng -- sh -c '
        on 2 rping -s -P -a $HOST2 >/dev/null 2>&1 & until on 2 "$0" 7174; do sleep 0.05; done
        echo begun; read -r step
        start=$(date +%s%N); rping -c -a $HOST2 -C 2 -v; echo status $? $((($(date +%s%N) - start) / 1000000))
        read -r step; rping -c -a $HOST2 -C 2 >/dev/null && echo again' "$lib/is_listening" <>steps >out 2>err 3>&- &
    pid=$!
    wait_until grep -q begun out
    softrdma wire --run "$pid" --host 1 --to 2 --loss 100 --for 1s
    echo changed >steps
    wait_until grep -q status out
    read -r _ status milliseconds <<<"$(grep status out)"
    ((status == 0 && milliseconds >= 500))
    run -2 softrdma wire --run "$pid" --host 3 --loss 1
    [[ $output == 'softrdma: wire: there is no host 3 in this run; it has: 1, 2' ]]
    echo ended >steps
    expect_status 0
    grep -x again out
    require_tshark
    read_capture wire.pcapng -Y 'frame.comment contains "dropped"' -T fields -e frame.comment >dropped
    grep -q 'from host 1 to 2$' dropped
    run ! grep -q 'from host 2 to 1$' dropped
}

@test "softrdma wire: a link that is down, from a host, lets nothing pass in both directions" {
    # shellcheck disable=SC2016
    run -0 run_on_hosts 3 --wire -- sh -c '
        for host in 2 3; do on $host rping -s -P -a $(eval echo \$HOST$host) >/dev/null 2>&1 & until on $host "$0" 7174; do sleep 0.05; done; done
        on 3 "$1" wire --host 2 --down || exit
        timeout 5 rping -c -a $HOST2 -C 1 -v && echo reached; rping -c -a $HOST3 -C 1 -v || exit
        "$1" wire --up || exit
        # The kernel may still take the address for unreachable.
        until rping -c -a $HOST2 -C 1 -v 2>&1; do sleep 0.1; done' "$lib/is_listening" "$program"
    [[ $output != *reached* && $(grep -c '^ping data' <<<"$output") == 2 ]]
}

@test "softrdma wire: a run without --wire, and one whose hosts share a kernel, are refused" {
    # shellcheck disable=SC2016
    run -2 run_on_hosts 2 --loss 1% -- "$program" wire --loss 2%
    [[ $output == *'the wire of this run cannot be changed; begin a run whose hosts have a kernel each with: --wire'* ]]
    run -77 softrdma run -q --in here --hosts 2 --wire -- true
}
