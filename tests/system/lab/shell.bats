#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# softrdma shell: commands in the guests of a run that is there.

bats_require_minimum_version 1.8.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"
source "$BATS_TEST_DIRNAME/../lib/caller.bash"

teardown() {
    [[ -z ${pid:-} ]] || kill "$pid" 2>/dev/null || true
    [[ -z ${pid:-} ]] || wait "$pid" || true
}

# start_run [OPTION...]: a run whose command is a shell that reads what is written to descriptor 8.
start_run() {
    mkfifo input
    "$program" run -q --in "${IN:-uml}" "$@" -- sh <input >out 2>err 3>&- &
    pid=$!
    exec 8>input
    wait_until compgen -G "$TMPDIR/softrdma.*[0-9a-f]"
}
# expect_end STATUS PROCESS
expect_end() {
    local status=0
    wait "$2" || status=$?
    ((status == $1)) || { echo "status $status instead of $1" && return 1; }
}
# type_on_terminal COMMAND: starts it on a terminal, as process $terminal. What is written to descriptor 9 is typed.
type_on_terminal() {
    rm -f typed screen && mkfifo typed
    script -qefc "$1" /dev/null <typed >screen 2>&1 3>&- 8>&- &
    terminal=$!
    exec 9>typed
}
end_run() {
    echo 'exit 0' >&8
    exec 8>&-
    expect_status 0
    pid=
    wait_until is_nothing_left
}

# shellcheck disable=SC2016 # the guest's shell expands it
@test "shell: a command on each host, with its devices, streams and status; the run goes on" {
    start_run --hosts 2
    # It waits until the guests have started.
    run -0 softrdma shell -- sh -c 'echo "$(hostname) $(ls /sys/class/infiniband) $SOFTRDMA_HOST $PWD"'
    [[ $output == "softrdma-1 rxe1 1 $PWD" || $output == *$'\n'"softrdma-1 rxe1 1 $PWD" ]]
    run -0 --separate-stderr softrdma shell 2 -- sh -c 'echo "$(hostname) $(ls /sys/class/infiniband)"; echo text >&2'
    # shellcheck disable=SC2154
    [[ $output == "softrdma-2 rxe2" && $stderr == text ]]
    run -0 softrdma shell 2 -- on 1 hostname
    [[ $output == softrdma-1 ]]
    run -7 softrdma shell 2 -- sh -c 'exit 7'
    run -127 softrdma shell 2 -- /no/such/program
    head -c 3000000 /dev/urandom >data
    softrdma shell 2 -- cat <data >copy
    cmp data copy
    softrdma shell 2 -- yes | head -n 100000 | uniq -c | grep '100000 y'
    run -2 softrdma shell 3 -- true
    [[ ${#lines[@]} == 1 && $output == "softrdma: shell: there is no host 3 in this run; it has: 1, 2" ]]
    [[ $(cat out err) == "" ]]
    end_run
}

# shellcheck disable=SC2016
@test "shell on a terminal: job control, the window's size; its shell ends it" {
    start_run
    softrdma shell -- true
    type_on_terminal "stty columns 91; '$program' shell"
    wait_until grep -qs '[>#$] ' screen
    echo 'sleep 100' >&9
    wait_until softrdma shell -- pgrep -x sleep
    printf '\3' >&9 # Ctrl-C
    echo 'echo "$(tput cols) columns, status $?"; exit 5' >&9
    expect_end 5 "$terminal" || { cat screen && return 1; }
    grep '91 columns' screen
    run -1 softrdma shell -- pgrep -x sleep
    end_run
}

@test "signals end the command or go to it; a shell that is killed leaves no command" {
    start_run
    softrdma shell -- true
    for signal in INT TERM HUP QUIT KILL; do
        "$program" shell -- sh -c 'trap "echo has INT; exit 33" INT; touch /tmp/begun; sleep 100 & wait' >shell.out 2>&1 3>&- 8>&- &
        shell=$!
        wait_until softrdma shell -- rm /tmp/begun
        softrdma shell -- pgrep -f 'trap [^ ]*echo' # it is recognized
        kill -"$signal" "$shell"
        status=0
        wait "$shell" || status=$?
        echo "$signal: $status"
        case $signal in
        INT) [[ $status == 33 && $(<shell.out) == "has INT" ]] ;;
        QUIT) ((status == 131)) ;;
        *) ((status == 128 + $(kill -l "$signal"))) ;;
        esac
        wait_until sh -c "! '$program' shell -- pgrep -f 'trap [^ ]*echo'"
    done
    end_run
}

@test "Ctrl-C in a pipeline: for all of its programs, and once for the command" {
    start_run
    softrdma shell -- true
    for subcommand in "run -q --in uml" shell; do
        # The shell has SIGINT ignored for a process in the background.
        type_on_terminal "'$program' $subcommand -- sh -c 'trap \"echo has INT\" INT; echo begun; sleep 100 & wait; sleep 0.5' |
            env --default-signal=INT sh -c 'trap \"echo the reader has INT\" INT; exec 3<&0; cat <&3 & wait; wait'"
        wait_until grep -qs begun screen
        printf '\3' >&9
        expect_end 0 "$terminal"
        grep 'the reader has INT' screen
        # The terminal shows ^C before what comes first.
        [[ $(grep -cE '^(\^C)?has INT' screen) == 1 ]]
    done
    end_run
}

@test "output of the run that is not read does not stop shells, and is not lost" {
    mkfifo pipe
    exec 7<>pipe
    "$program" run -q --in uml -- sh -c 'seq 200000; echo end' >pipe 2>err 3>&- 7>&- &
    pid=$!
    wait_until compgen -G "$TMPDIR/softrdma.*[0-9a-f]"
    wait_until timeout 20 "$program" shell -- pgrep -x seq # it waits for its reader
    run -0 timeout 20 "$program" shell -- echo there
    [[ $output == *there ]]
    [[ $(sed '/end/q' <&7 | wc -l) == 200001 ]]
    expect_status 0
    pid=
}

@test "streams, a folder and a key that the command cannot have" {
    start_run
    softrdma shell -- true
    for redirection in '>&-' '>/dev/full'; do
        run -1 sh -c "\"\$0\" shell -- echo text $redirection" "$program"
        [[ ${#lines[@]} == 1 && $output == "softrdma: cannot write to standard output: "* ]]
    done
    mkdir removed
    # shellcheck disable=SC2016
    run -2 sh -c 'cd removed && rmdir ../removed && "$0" shell -- true' "$program"
    [[ ${#lines[@]} == 1 && $output == "softrdma: the current folder: No such file or directory; change to another one: cd" ]]
    # shellcheck disable=SC2016
    SOFTRDMA_KEY=text run -0 softrdma shell -- sh -c 'echo "[$SOFTRDMA_KEY]"'
    [[ $output == "[]" ]]
    run -2 softrdma shell 0 -- true
    end_run
}

@test "a shell ends when its run does, which it says" {
    start_run --hosts 2
    softrdma shell -- true
    for host in 1 2; do
        "$program" shell $host -- sleep 100 >"shell$host" 2>&1 3>&- 8>&- &
        shells[host]=$!
        wait_until softrdma shell $host -- pgrep -x sleep
    done
    echo 'exit 0' >&8
    expect_status 0
    for host in 1 2; do
        expect_end 1 "${shells[host]}"
        [[ $(<shell$host) == "softrdma: shell: the run has ended, and with it this command" ]]
    done
    run -2 softrdma shell -- true
    [[ $output == *"there is no run of this user with this TMPDIR; begin one"* ]]
    pid=
}

@test "one of several runs is chosen by --run" {
    start_run
    softrdma shell -- true
    "$program" run -q --in uml -- sh -c 'echo begun; exec sleep 100' >second 3>&- 8>&- &
    second=$!
    wait_until grep -qs begun second
    run -2 softrdma shell -- true
    [[ ${#lines[@]} == 3 && $output == *"choose one by --run PID"* && $output == *"  $second  softrdma run -q --in uml -- sh -c "* ]]
    run -0 softrdma shell --run "$second" -- pgrep -cx sleep
    run -1 softrdma shell --run "$pid" -- pgrep -cx sleep
    run -2 softrdma shell --run 1 -- true
    [[ $output == *"--run 1: there is no such run; these are there:"* ]]
    kill "$second"
    expect_end 143 "$second"
    end_run
}

@test "a run with another TMPDIR is not seen" {
    TMPDIR=/tmp "$program" run -q --in uml -- sh -c 'echo begun; exec sleep 100' >out 2>err 3>&- &
    pid=$!
    wait_until grep -qs begun out
    run -2 softrdma shell -- true
    [[ $output == *"there is no run of this user with this TMPDIR; begin one"* ]]
    TMPDIR=/tmp softrdma shell --run "$pid" -- true
    kill "$pid"
    expect_status 143
    pid=
}

@test "misuse: status 2, one line" {
    for arguments in "" "name -- true" "2 true" "2 --run 1 -- true" "-- "; do
        # shellcheck disable=SC2086
        run -2 softrdma shell $arguments </dev/null
        [[ ${#lines[@]} == 1 && $output == "softrdma: shell: "*"; try: softrdma shell 2 -- rdma link" ]]
    done
    run -2 softrdma shell --run x
}

@test "a connection that sends no frames, or those of another version, leaves the run and others alone" {
    start_run
    softrdma shell -- true
    for sent in 'b"text that is no frame"' 'frames.encode(frames.START, data=b"[]")' 'frames.encode(frames.ALIVE)' \
        'frames.encode(frames.START, data=b"{\"host\": 1}")' 'frames.encode(frames.KILL) * 2' 'b""'; do
        PYTHONPATH=${program%/*} python3 - "$TMPDIR"/softrdma.*[0-9a-f]/shell "$sent" <<'END'
import socket, sys
from lab.protocol import frames
connection = socket.socket(socket.AF_UNIX)
connection.connect(sys.argv[1])
connection.send(eval(sys.argv[2]))
END
        run -0 softrdma shell -- echo there
        [[ $output == there ]]
    done
    end_run
}

# bats test_tags=qemu
@test "shell in a QEMU guest, which has all hosts" {
    IN=qemu start_run --hosts 2
    for host in 1 2; do
        run -0 softrdma shell $host -- sh -c 'echo "$SOFTRDMA_HOST $SOFTRDMA_DEVICE"; ls /sys/class/infiniband | wc -l'
        [[ $output == *"$host rxe$host"$'\n2' ]]
    done
    run -2 softrdma shell 3 -- true
    end_run
}
