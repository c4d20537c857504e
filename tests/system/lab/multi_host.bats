#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Hosts that have a kernel each: what `on` forwards, and the wire between them.

bats_require_minimum_version 1.8.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"
source "$BATS_TEST_DIRNAME/../lib/caller.bash"

run_on_hosts() { softrdma run --in uml -q --hosts "$@"; }
data_integrity=$BUILD/tests/system/lib/data_integrity

# Most cases share two hosts, which boot once.
setup_file() {
    export shared_folder=$BATS_FILE_TMPDIR hosts_pid
    mkfifo "$shared_folder/folders"
    # shellcheck disable=SC2016 # expanded on the host
    TMPDIR=$shared_folder "$BATS_TEST_DIRNAME/../../../scripts/softrdma" run --in uml -q --hosts 2 --write "$shared_folder" -- bash -c '
        while read -r folder && cd "$folder"; do bash script <in >out 2>err; echo $? >status; done' \
        <>"$shared_folder/folders" >"$shared_folder/out" 2>&1 3>&- &
    hosts_pid=$!
}
teardown_file() {
    echo end >"$shared_folder/folders" # no folder
    wait "$hosts_pid" || (($? == 1))
}

# run_script [FILE]: runs standard input as a script on host 1 of the shared hosts, in a folder that both hosts share,
# with FILE as its standard input. Sets $status, $output and $stderr.
run_script() {
    folder=$shared_folder/$BATS_TEST_NUMBER
    mkdir "$folder"
    cat >"$folder/script"
    cp "${1:-/dev/null}" "$folder/in"
    echo "$folder" >"$shared_folder/folders"
    wait_until is_ready_or_ended "$hosts_pid" test -s "$folder/status"
    status=$(<"$folder/status") output=$(<"$folder/out") stderr=$(<"$folder/err")
    echo "$status: $output, $stderr"
}

@test "rping connects each of three hosts with each other, by rxe and by siw" {
    # All hosts serve; then each pings the others. `on` is slow: it starts Python.
    # shellcheck disable=SC2016 # expanded on the host
    server_command='rping -s -P -V -a $SOFTRDMA_SIW_ADDRESS & exec rping -s -P -V -a $SOFTRDMA_RXE_ADDRESS'
    # shellcheck disable=SC2016
    client_command=$(declare -f rping_until_served)'
        for peer in 1 2 3; do
            ((peer != SOFTRDMA_HOST)) || continue
            for driver in RXE SIW; do
                address=SOFTRDMA_${driver}_HOST$peer
                rping_until_served "${!address}" 3 || exit
            done
        done'
    # shellcheck disable=SC2016
    run -0 run_on_hosts 3 --driver both -- sh -ec '
        for host in 1 2 3; do on $host sh -c "$0" >/dev/null 2>&1 & done
        for host in 1 2 3; do on $host bash -c "$1"; done' "$server_command" "$client_command"
    [[ $(grep -c '^ping data' <<<"$output") == 36 ]]
}

@test "a host has its own device, processes and files; hosts share a folder of --write" {
    run_script <<'END'
for host in 1 2; do on $host ls /sys/class/infiniband; done
sleep 4711 & on 2 pgrep -f "[s]leep 4711"
touch /tmp/here; on 2 test ! -e /tmp/here || echo shared
on 2 sh -c 'echo of 2 >file; printenv SOFTRDMA_HOST SOFTRDMA_DEVICE HOST1; uname -n'; cat file
kill $!
END
    [[ $output == $'rxe1\nrxe2\n2\nrxe2\n198.19.1.1\nsoftrdma-2\nof 2' ]]
}

@test "on: standard input, output and error pass unchanged and separately" {
    head -c 3000000 /dev/urandom >bytes
    run_script bytes <<<'on 2 tee /dev/stderr'
    cmp bytes "$folder/out"
    cmp bytes "$folder/err"
}

@test "on: environment, folder, arguments and status pass unchanged" {
    run_script <<'END'
mkdir 'with blank' && cd 'with blank'
export QUOTED='a "b" $c'
on 2 sh -c 'pwd; printf "%s|" "$QUOTED" "$@"; exit 42' - '* 1' ''
END
    [[ $status == 42 && $output == "$folder/with blank"$'\na "b" $c|* 1||' ]]
}

@test "on: the name of a host makes the words a command line, as ssh does" {
    printf text >bytes
    run_script bytes <<'END'
on -n softrdma-2 uname -n\; '"/bin/echo"' '"a  b"' '$SOFTRDMA_HOST;' exit 7; echo $?
on -n softrdma-2 cat; on -x softrdma-2 cat; on softrdma-1 uname -n; on 2 on softrdma-1 uname -n
END
    [[ $output == $'softrdma-2\na  b 2\n7\ntextsoftrdma-1\nsoftrdma-1' ]]
}

@test "a host knows the names of all; the machine's names stay" {
    run_script <<'END'
on 2 getent hosts softrdma-1; getent hosts softrdma-2; grep -cv softrdma- /etc/hosts
END
    [[ $output =~ ^198.19.1.1\ +softrdma-1$'\n'198.19.1.2\ +softrdma-2$'\n'"$(wc -l </etc/hosts)"$ ]]
}

@test "on: invalid arguments are status 2, an unknown program 127" {
    run_script <<'END'
on 3 true; echo $?; on two true; echo $?; on 2; echo $?; on; echo $?
on 2 no-such-program; echo $?; on 1 no-such-program; echo $?; on 2 sh -c 'kill -TERM $$'; echo $?
END
    [[ $(paste -sd ' ' <<<"$output") == '2 2 2 2 127 127 143' ]]
    [[ $stderr == *"no host '3' here"*"a command is missing"*"cannot run no-such-program"* ]]
}

@test "on: streams that are closed are no error, unless the command writes to them" {
    run_script <<'END'
timeout 10 on 2 true <&-; echo $?; on 2 true >&-; echo $?; on 2 true >&- 2>&-; echo $?; on 2 true <&- >&- 2>&-; echo $?
timeout 10 on 2 cat <&-; echo $?; timeout 10 on 2 echo text >&-; echo $?
END
    [[ $(paste -sd ' ' <<<"$output") == '0 0 0 0 0 1' && $stderr == *'cannot write to standard output'* ]]
}

@test "on: signals reach the command; its background processes stay" {
    run_script <<'END'
on 2 sh -c 'trap "echo trapped; exit 9" TERM; sleep 1000 & touch begun; wait' &
until [ -e begun ]; do sleep 0.05; done; kill -TERM $!; wait $!; echo $?
on 2 sleep 4711 & on 2 sh -c 'until pgrep -f "[s]leep 4711"; do sleep 0.05; done'; kill -KILL $!
on 2 sh -c 'while pgrep -f "[s]leep 4711" >/dev/null; do sleep 0.05; done'
on 2 sh -c 'sleep 4712 & echo left'; on 2 pgrep -f "[s]leep 4712" >/dev/null && echo stays
END
    [[ $output == *$'trapped\n9\n'*$'left\nstays' ]]
}

@test "on: a reader that does not read delays no other" {
    run_script <<'END'
on 2 yes | { until [ -e read ]; do sleep 0.05; done; head -n 1; } &
on 2 head -c 5000000 /dev/zero | wc -c; touch read; wait
END
    [[ $(sort <<<"$output") == $'5000000\ny' ]]
}

@test "on: a terminal is passed on with its size" {
    run_script <<'END'
script -qec "stty rows 33 cols 99; on 2 sh -c 'stty size; tty; exit 4'" /dev/null
END
    [[ $status == 4 && $output == *"33 99"* && $output == */dev/pts/* ]]
}

@test "a neighbour that replies at once is not missed, as by kernels without the patch in 12 of 300 rounds" {
    run_script <<END
[[ " \$SOFTRDMA_MISSING_PATCHES " == *" RDMA-core-do-not-miss-a-neighbour"* ]] && exit 77
$BUILD/tests/system/lab/resolve_address \$SOFTRDMA_NETDEV \$HOST2 1000
END
    ((status != 77)) || skip 'the kernel is built without the patch'
    [[ $output == 'resolved 1000 times' ]]
}

@test "a wire with --loss: data_integrity verifies every byte, by rxe and by siw" {
    # shellcheck disable=SC2016 # expanded on the host
    run -0 run_on_hosts 2 --driver both --loss 1% --pcap wire.pcapng -- sh -ec '
        on 2 sh -ec "for address; do \"\$0\" server \$address; done" "$0" $SOFTRDMA_RXE_HOST2 $SOFTRDMA_SIW_HOST2 &
        for driver in RXE SIW; do
            eval "address=\$SOFTRDMA_${driver}_HOST2"
            "$0" client $address
        done
        wait $!' "$data_integrity"
    [[ $(grep -c 'bytes verified' <<<"$output") == 4 ]]
    for driver in rxe siw; do grep -a "dropped: IPv4 frame [0-9]* of $driver from" wire.pcapng; done
}

@test "a wire with --delay: three round trips take at least six times the delay" {
    # shellcheck disable=SC2016
    run -0 run_on_hosts 2 --delay 100ms -- sh -c '
        on 2 rping -s -a $HOST2 -C 2 >/dev/null 2>&1 & until on 2 "$0" 7174; do sleep 0.05; done
        start=$(date +%s%N); rping -c -a $HOST2 -C 2 -v >&2; echo $((($(date +%s%N) - start) / 1000000))' "$lib/is_listening" 2>/dev/null
    (($(tail -n 1 <<<"$output") >= 600)) # milliseconds: the connection and two pings are three round trips
}

@test "a host whose kernel dies is a failure that names the host" {
    start_softrdma run --in uml -q --hosts 2 -- sh -c 'on 2 touch begun; echo begun; sleep infinity'
    wait_until grep -q begun out
    kill -KILL "$(guest_pids 'softrdma.*/2/job')"
    expect_status 1
    grep "the guest of host 2 ended before the command did" err
    is_nothing_left
}

@test "three hosts that are killed at random moments leave nothing" {
    kill_at_random_moments 5 35 --in uml --driver both --hosts 3 -- on 3 sleep infinity
}

