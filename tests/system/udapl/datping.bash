# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# shellcheck shell=bash
#
# Shared by the datping tests, for any uDAPL library. An IA has the name of its device.
# shellcheck disable=SC2034,SC2154 # variables for the tests, and those of bats' run

source "$BATS_TEST_DIRNAME/../lib/lib.bash"
ping=$BUILD/tools/datping/datping
info=$BUILD/tools/datinfo/datinfo
peer=$BUILD/tests/system/udapl/datping_peer
rxe=$SOFTRDMA_RXE_ADDRESS siw=$SOFTRDMA_SIW_ADDRESS
server=''

teardown() {
    [[ ! $server ]] || kill "$server" 2>/dev/null || true # it may have ended
}

# start_in_background PATTERN COMMAND...: starts $server and waits until it has printed the pattern.
start_in_background() {
    local pattern=$1
    shift
    empty_output server
    "$@" >"$BATS_TEST_TMPDIR/server.out" 2>&1 3>&- &
    server=$!
    wait_for_output server "$pattern"
}
start_server() { # DRIVER [OPTION...]
    local device=SOFTRDMA_${1^^}_DEVICE
    start_in_background listens "$ping" -s -I "${!device}" "${@:2}"
}
start_faulty_server() { # DRIVER FAULT
    local device=SOFTRDMA_${1^^}_DEVICE
    start_in_background ready "$peer" server "$2" "${!device}" 7175
}

# run_direct -STATUS [--separate-stderr] COMMAND...: like bats' run, without its child processes.
run_direct() {
    local expected=${1#-} text out=$BATS_TEST_TMPDIR/out
    shift
    status=0 stderr=''
    if [[ $1 == --separate-stderr ]]; then
        shift
        "$@" >"$out" 2>"$out.err" || status=$?
        read_text "$out.err"
        stderr=${text%$'\n'}
    else
        "$@" >"$out" 2>&1 || status=$?
    fi
    read_text "$out"
    output=${text%$'\n'}
    IFS=$'\n' read -rd '' -a lines <"$out" || true # read fails at the end of the file
    ((status == expected)) || { echo "$*: status $status, not $expected: $output $stderr" && return 1; }
}

expect_server_status() { # STATUS
    local status=0
    wait "$server" || status=$?
    server=''
    ((status == $1)) || { echo "the server ended with $status" && cat "$BATS_TEST_TMPDIR/server.out" && return 1; }
}
stop_server() { # STATUS
    kill -INT "$server"
    expect_server_status "$1"
}

has_rounds() { [[ $'\n'$output =~ $'\n'"$1"\ +"$2"\ +"$3"\  ]]; } # MODE ROUNDS ERRORS: a line of $output

verify_all_modes() { # DRIVER
    start_server "$1"
    for size in 1 4097 256k; do
        run_direct -0 --separate-stderr "$ping" "${!1}" -m all -c 10 -S $size
        echo "$output"
        for mode in send write read pingpong; do has_rounds $mode 10 0; done
    done
    run_direct -0 --separate-stderr "$ping" "${!1}" -m all -c 10 --poll
    stop_server 0
    expect_output server 'client 3.: rounds: 40, wrong: 0$'
    expect_output server 'clients served: 4, rejected: 0'
}
expect_flipped_bit_found() { # DRIVER MODE
    start_faulty_server "$1" flipped-bit
    run_direct -1 --separate-stderr "$ping" "${!1}" -m "$2" -c 2
    echo "$output"
    [[ ${lines[2]} =~ ^"round 1 ($2): 1 of 64 bytes wrong here; at 32 is 0x"..", not 0x"..$ ]]
    has_rounds "$2" 2 2
    [[ $output == *'2 rounds'*'2 WRONG'* ]]
    expect_server_status 0
}
expect_server_fault_reported() { # DRIVER FAULT MESSAGE [SECONDS]: that the client waits for the server
    start_faulty_server "$1" "$2"
    run_direct -1 --separate-stderr "$ping" "${!1}" -t "${4:-120}"
    echo "$stderr"
    [[ $stderr == *"datping: ${!1} "*"$3"* ]] || { cat "$BATS_TEST_TMPDIR/server.out" && return 1; }
    kill -9 "$server" 2>/dev/null || true # it may have ended, or its library may wait
    wait "$server" 2>/dev/null || true    # its status is that of the signal
    server=''
}
expect_server_faults_reported() { # DRIVER
    expect_server_fault_reported "$1" other-version "uses version 2 of datping's protocol, this one version 1"
    expect_server_fault_reported "$1" invalid-message 'sent an invalid message during setup'
    expect_server_fault_reported "$1" silent 'did not answer during setup: no Receive completed within 3 s' 3
    expect_server_fault_reported "$1" exits 'disconnected or exited in round 1 (pingpong) (DAT_CONNECTION_EVENT_DISCONNECTED)'
    expect_server_fault_reported "$1" disconnects 'disconnected or exited in round 1 (pingpong)'
    expect_server_fault_reported "$1" wrong-round 'replied to the wrong round (round 2, pingpong) in round 1'
}
expect_client_fault_reported() { # DRIVER FAULT PATTERN: in the server's output
    local device=SOFTRDMA_${1^^}_DEVICE
    "$peer" client "$2" "${!device}" "${!1}" 7175
    wait_for_output server "$3"
}
expect_client_faults_survived() { # DRIVER
    start_server "$1" -t 4
    expect_client_fault_reported "$1" silent 'sent nothing for too long'
    expect_client_fault_reported "$1" no-disconnect 'sent a BYE, but did not disconnect'
    stop_server 1
    start_server "$1" -t 120
    expect_client_fault_reported "$1" not-datping 'rejected: it is not a datping'
    expect_client_fault_reported "$1" zero-size 'rejected: it is not a datping'
    expect_client_fault_reported "$1" byte-order 'rejected: it uses another byte order'
    expect_client_fault_reported "$1" other-version "rejected: it uses version 2 of datping's protocol, this server version 1"
    expect_client_fault_reported "$1" invalid-message 'sent an invalid message: 96 bytes that are not a datping message'
    expect_client_fault_reported "$1" small-buffer 'sent an invalid message: buffers smaller than the requested size'
    expect_client_fault_reported "$1" flipped-bit 'rounds: 1, wrong: 1'
    expect_client_fault_reported "$1" exits 'disconnected or exited without a BYE'
    expect_client_fault_reported "$1" bad-rkey 'RDMA Read completed with DAT_DTO_ERR_REMOTE_ACCESS|client 5.*disconnected or exited'
    run_direct -0 "$ping" "${!1}" -c 3 # a good client is still served
    stop_server 1
}
# expect_holding_clients_ended DRIVER FAULT...: clients that announce pauses of an hour, which the server allows, have
# its time limit as long as they complete no round. Others are served meanwhile.
expect_holding_clients_ended() {
    local fault client device=SOFTRDMA_${1^^}_DEVICE
    local -a clients=()
    start_server "$1" -t 4 -i 3600
    for fault in "${@:2}"; do
        "$peer" client "$fault" "${!device}" "${!1}" 7175 3>&- &
        clients+=($!)
    done
    wait_for_output server "client ${#clients[@]}\\): 64 bytes"
    run_direct -0 "$ping" "${!1}" -c 3
    for client in "${clients[@]}"; do wait "$client"; done
    stop_server 1
    [[ $(grep -c 'sent nothing for too long$' "$BATS_TEST_TMPDIR/server.out") == "${#clients[@]}" ]]
}
