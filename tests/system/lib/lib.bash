# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# shellcheck shell=bash
#
# For tests that run where soft devices exist (in `softrdma run`). Times in here only end a hang: no test
# asserts that something is done by a time that a busy machine may exceed.

lib=${BASH_SOURCE[0]%/*}
source "$lib/known_faults.bash"

# Drivers whose devices our plugin serves.
: "${OUR_DRIVERS=rxe siw}"

# OBSERVED=1: each program runs with the interposer and an observer that counts, which fails if a promise is broken. At
# the end of a file, requests have been counted.
if [[ -n ${OBSERVED:-} ]]; then
    export LD_PRELOAD=$BUILD/provider/libcoherdma-interposer.so
    export COHERDMA_OBSERVERS=$BUILD/tests/system/interposer/libcount.so COUNT_FILE=${BATS_FILE_TMPDIR:-}/observed.%p
    teardown_file() { cat "$BATS_FILE_TMPDIR"/observed.* | grep -q '^sends [1-9]'; }
fi

# wait_until COMMAND...: return when the command succeeds; after $WAIT_LIMIT seconds it is a failure.
wait_until() {
    local deadline=$((SECONDS + ${WAIT_LIMIT:-120}))
    until "$@"; do
        ((SECONDS < deadline)) || {
            echo "this did not come true: $*" >&2
            return 1
        }
        pause 0.05
    done
}
# pause SECONDS: as sleep, without a program: a pipe to which nothing writes. In a subshell, since bash 5.2 sets a
# wrong signal mask if the time is over before read begins to wait. The pipe is made here, since that changes $!.
exec {idle_pipe}<> <(:)
pause() {
    (read -rt "$1" -u "$idle_pipe") || true # the time was over
}

# as_nobody PROGRAM ARGUMENT...: a program of the build as an ordinary user. The build folder may not be readable to
# that user, so the program and its library are copied to one that is.
as_nobody() {
    local folder=/run/as_nobody
    mkdir -p $folder
    cp "$1" "$BUILD/ibverbs-glue/libcoherdma.so.1" $folder
    LD_LIBRARY_PATH=$folder setpriv --reuid 65534 --regid 65534 --clear-groups "$folder/${1##*/}" "${@:2}"
}

# read_text FILE: sets text to what the file has, without zero bytes.
read_text() {
    local part
    text=''
    while IFS= read -rd '' part; do text+=$part; done <"$1"
    text+=$part
}

# listener_pid PORT: the process that listens on it by rdma_cm.
listener_pid() {
    rdma resource show cm_id 2>/dev/null |
        sed -nE "s/.* state LISTEN .* pid ([0-9]+) .* src-addr [^ ]+:$1 .*/\1/p" | head -n 1
}
export -f listener_pid # for the commands of run_server_client

# is_listening PORT [--rsocket]: on the server's host, if there are two ($SERVER_ON: `on 2`).
is_listening() { ${SERVER_ON:-} "$lib/is_listening" "$@"; }
is_listening_tcp() { # PORT
    local file text port
    printf -v port %04X "$1"
    for file in /proc/net/tcp /proc/net/tcp6; do
        read_text $file
        [[ ! $text =~ :$port\ [0-9A-F]+:0000\ 0A ]] || return 0
    done
    return 1
}

# device_fact DRIVER FACT: of the driver's device, e.g. device_fact siw ADDRESS.
device_fact() {
    local name=SOFTRDMA_${1^^}_$2
    echo "${!name}"
}

# run_server_client SERVER CLIENT: run two shell commands as server and client, the client once the server
# listens on $PORT by rdma_cm, or the command $READY succeeds. Both must succeed, within $LIMIT seconds.
# Their output is in server.out and client.out of the test's folder.
run_server_client() {
    local server client ended='' status=0 server_status=0
    empty_output server
    empty_output client
    run_limited "$1" >"$BATS_TEST_TMPDIR/server.out" 2>&1 3>&- &
    server=$!
    # shellcheck disable=SC2086 # words
    wait_until is_ready_or_ended "$server" ${READY:-is_listening "$PORT"} || status=1
    if ((status == 0)); then
        run_limited "$2" >"$BATS_TEST_TMPDIR/client.out" 2>&1 3>&- &
        client=$!
        wait -n -p ended "$client" "$server" || status=$?
        # A client whose server has ended by a fault of perftest waits without end. It may have ended by itself.
        if [[ $ended == "$server" ]] && ((status != 0)) && has_printed server "$PERFTEST_FAULTS"; then
            kill "$client" 2>/dev/null || true
        fi
        [[ $ended == "$client" ]] || { status=0; wait "$client" || status=$?; }
        ! is_rping_exit_race client "$status" || status=0
    fi
    ((status == 0)) || kill "$server" 2>/dev/null || true # it may have ended by itself
    wait "$server" || server_status=$?
    ((server_status == 0)) || is_rping_exit_race server "$server_status" || status=$server_status
    ((status == 0)) || tail -n 40 "$BATS_TEST_TMPDIR"/*.out
    return "$status"
}
# run_programs DRIVER PORT SERVER CLIENT: @ in the commands is the device's address.
run_programs() {
    local address=SOFTRDMA_${1^^}_ADDRESS
    PORT=$2 run_server_client "${3//@/${!address}}" "${4//@/${!address}}"
}
# run_with_daemon DRIVER PORT SERVER CLIENT: the server does not end by itself: SIGTERM ends it.
run_with_daemon() { run_programs "$1" "$2" "$3; ((\$? == 143))" "$4 && kill \$(listener_pid $2)"; }
# run_limited COMMAND: with the library $PRELOAD if there is one, and with a shell only if the command needs one.
run_limited() {
    [[ ! -e ${PRELOAD:-} ]] || export LD_PRELOAD=$PRELOAD${LD_PRELOAD:+:$LD_PRELOAD}
    # shellcheck disable=SC2086 # words
    [[ $1 == *[\;\&\|\$\(\<\"\'\*]* ]] || exec timeout "${LIMIT:-120}" $1
    exec timeout "${LIMIT:-120}" bash -c "$1"
}
is_ready_or_ended() { # PID COMMAND...
    ! kill -0 "$1" 2>/dev/null || "${@:2}"
}

# expect_output SIDE PATTERN: server or client has printed a line like that.
expect_output() {
    has_printed "$@" || {
        echo "the $1 did not print '$2':"
        tail -n 20 "$BATS_TEST_TMPDIR/$1.out"
        return 1
    }
}
# empty_output SIDE: before the side starts in the background, which may empty its file later than we read it.
empty_output() { : >"$BATS_TEST_TMPDIR/$1.out"; }
has_printed() { has_line "$2" "$BATS_TEST_TMPDIR/$1.out"; } # SIDE PATTERN
# has_line PATTERN FILE: as grep -qs, without a process.
has_line() {
    local line lines=()
    [[ ! -e $2 ]] || mapfile -t lines <"$2"
    for line in "${lines[@]}"; do
        [[ ! $line =~ $1 ]] || return 0
    done
    return 1
}
wait_for_output() { wait_until has_printed "$@" || expect_output "$@"; } # SIDE PATTERN

# verify_data SERVER CLIENT [OPTION...]: data_integrity moves data of all sizes from the client's host to
# $ADDRESS of the server's, and verifies every byte. SERVER and CLIENT are commands that enter the host, or
# env.
verify_data() {
    local program=$BUILD${SANITIZED:+/$SANITIZED}/tests/system/lib/data_integrity server=$1 client=$2 status=0
    shift 2
    $server "$program" server "${ADDRESS:?}" "$@" >"$BATS_TEST_TMPDIR/server.out" 2>&1 3>&- &
    $client "$program" client "$ADDRESS" "$@" || status=$?
    wait $! || status=$?
    ((status == 0)) || sed 's/^/server: /' "$BATS_TEST_TMPDIR/server.out"
    ((status == 0)) && expect_output server 'transfers, [0-9]+ bytes verified'
}
verify_data_on() { ADDRESS=$(device_fact "$1" ADDRESS) verify_data env env "${@:2}"; } # DRIVER [OPTION...]

# run_rping DRIVER [COUNT [SERVER-OPTIONS CLIENT-OPTIONS]]: the client has verified so many rounds.
run_rping() {
    local address=SOFTRDMA_${1^^}_ADDRESS count=${2:-100}
    PORT=7174 run_server_client "rping -s -a ${!address} -V ${3:--C $count}" "rping -c -a ${!address} -C $count -V -v ${4:-}"
    expect_pings "$count"
    run ! grep -aiE 'error|mismatch|invalid' "$BATS_TEST_TMPDIR"/*.out
}
expect_pings() { # COUNT: of the client's output
    local count
    count=$(grep -ac '^ping data' "$BATS_TEST_TMPDIR/client.out" || true) # 0 is a count, too
    [[ $count == "$1" ]] || {
        echo "$count pings, not $1"
        return 1
    }
}

# run_perftest DRIVER PROGRAM OPTIONS: a perftest program, connected by rdma_cm, prints a row of numbers.
run_perftest() {
    local address=SOFTRDMA_${1^^}_ADDRESS device=SOFTRDMA_${1^^}_DEVICE
    PORT=18515 run_perftest_commands "$2 -R -d ${!device} $3" "${!address}"
}
# run_perftest_commands SERVER ADDRESS [CLIENT]: the client is CLIENT, or the server with the address.
run_perftest_commands() {
    retry_perftest run_server_client "$1" "${3:-$1 $2}" &&
        expect_output client '^ *[0-9]+ +[0-9]+ +[0-9.]+'
}

# run_pingpong OPTION [PROGRAM]: a pingpong program of libibverbs on rxe; ibv_rc_pingpong verifies data.
run_pingpong() {
    local options program=${2:-ibv_rc_pingpong}
    options="$1 -n 1000 -d $(device_fact rxe DEVICE) -g $(device_fact rxe GID_INDEX)"
    [[ $program != ibv_rc_pingpong ]] || options+=' -c'
    READY='is_listening_tcp 18515' run_server_client "$program $options" "$program $options $(device_fact rxe ADDRESS)"
    expect_output client '^1000 iters'
    expect_output server '^1000 iters'
}

# with_provider DRIVER FUNCTION [ARGUMENT...]: call the function with the driver and the arguments. For
# OUR_DRIVERS our plugin serves the server and the client; else the stock provider does.
with_provider() {
    local driver=$1 function=$2
    shift 2
    if [[ " $OUR_DRIVERS " != *" $driver "* ]]; then
        "$function" "$driver" "$@"
        return
    fi
    use_our_provider
    "$function" "$driver" "$@"
    expect_served "$driver" 2
}
use_our_provider() {
    export RDMAV_DRIVERS=$BUILD/provider/libcoherdma:$BUILD/provider/libcoherdma-observers
    export VERBS_LOG_LEVEL=3 VERBS_LOG_FILE=$BATS_TEST_TMPDIR/verbs.log
}
# expect_served DRIVER TIMES: our plugin served its device at least so often.
expect_served() {
    local served_times=0
    count_served "$1"
    ((served_times >= $2)) || {
        echo "served $served_times times, not $2"
        return 1
    }
}
count_served() { # DRIVER: sets $served_times
    local line lines=() device=SOFTRDMA_${1^^}_DEVICE
    [[ ! -e $VERBS_LOG_FILE ]] || mapfile -t lines <"$VERBS_LOG_FILE"
    served_times=0
    for line in "${lines[@]}"; do
        [[ $line != *"${!device} is served by coherdma"* ]] || served_times=$((served_times + 1))
    done
}

# expect_right DRIVER TRIAL...: each trial of provider/edge_cases_DRIVER is right.
expect_right() {
    local results target=("$(device_fact "$1" ADDRESS)")
    [[ $1 != rxe ]] || target=("$(device_fact rxe DEVICE)" "$(device_fact rxe GID_INDEX)")
    results=$("$BUILD/tests/system/provider/edge_cases_$1" "${target[@]}" "${@:2}") || true # it prints the failure
    echo "$results"
    [[ $(grep -c ': right ' <<<"$results") == $(($# - 1)) ]]
}
