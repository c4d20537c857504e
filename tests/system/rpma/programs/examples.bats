#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The examples of librpma's source. Those for persistent memory use ordinary memory. Cases tagged idle wait ten seconds
# and longer for a client that does not come. What runs with what: programs.bash.

bats_require_minimum_version 1.8.0
source "$BATS_TEST_DIRNAME/programs.bash"

setup() { require examples; }
teardown() { kill_all; }

use() { # EXAMPLE
    example=$PROGRAMS/examples/$1
    prepare "examples/$1/server" "examples/$1/client"
}
# run_pair EXAMPLE SERVER-ARGUMENTS CLIENT-ARGUMENTS: a server and one client, which both succeed.
run_pair() {
    use "$1"
    # shellcheck disable=SC2086 # words
    start_server 1 "$example/server" "$ADDRESS" $PORT $2
    # shellcheck disable=SC2086 # words
    start_client "$example/client" "$ADDRESS" $PORT $3
    end_client 1 0
    end_server 0
    expect_served
}

# run_counter EXAMPLE LAST-LINE-OF-SERVER LAST-LINE-OF-CLIENT: the client sends a counter, which the server increments;
# then it sends that it is done, and disconnects without waiting for that message. On rxe the message may be lost: the
# server waits for it without end, and the client for the server (KNOWN_FAULTS.md). Then the server is ended.
run_counter() {
    local until
    use "$1"
    start_in_order "$3" 7 3
    until=$((SECONDS + 3))
    while [[ $SOFTRDMA_DEVICE == rxe* ]] && is_running "$server" && ((SECONDS < until)); do pause 0.05; done
    if [[ $SOFTRDMA_DEVICE == rxe* ]] && is_running "$server"; then
        kill "$server"
        end_server 143
    else
        end_server 0
    fi
    end_client 1 0
    expect client1 'Value sent: 7$' 'Value received: 8$' 'Value sent: 8$' "$3"
    expect server 'Value received: 7$' 'Value sent: 8$' 'Value received: 8$' "$2"
    expect_served
}
# start_in_order LAST-LINE-OF-CLIENT [ARGUMENT-OF-CLIENT...]: both sides, until the client has printed its last line.
# 09scch and 12scch expect the completion of a Send before that of the receive of its answer, and fail otherwise
# (KNOWN_FAULTS.md): then they are started again.
start_in_order() {
    for _ in {1..12}; do
        num_clients=0
        start_server 1 "$example/server" "$ADDRESS" $PORT
        start_client "$example/client" "$ADDRESS" $PORT "${@:2}"
        wait_until has_printed_last "$1"
        [[ $example == */*scch-* ]] && is_out_of_order || return 0
        kill_all
        wait || true
    done
}
has_printed_last() { # LAST-LINE-OF-CLIENT
    is_out_of_order || ! is_running "${clients[1]}" || has_printed client1 "$1"
}
is_out_of_order() {
    has_printed server 'unexpected wc\.opcode value' || has_printed client1 'unexpected wc\.opcode value'
}

# run_hello EXAMPLE: the client's greeting gets to the server, or the server's to the client.
run_hello() {
    use "$1"
    start_in_order 'Translation: .Hola Mundo!$'
    end_client 1 0
    end_server 0
    expect_served
    expect client1 'Next value: Hello world!$' 'Translation: .Hola Mundo!$'
    expect server 'New value: Hello world!$'
}

# run_names EXAMPLE: four clients, one after the other, each with a name, which the server reads.
run_names() {
    local number seed name
    use "$1"
    start_server 1 "$example/server" "$ADDRESS" $PORT
    for seed in 8 9 11 12; do
        start_client "$example/client" "$ADDRESS" $PORT $seed
        end_client $num_clients 0
    done
    end_server 0 # it stops a while after its last client
    for ((number = 1; number <= num_clients; ++number)); do
        name=$(sed -n 's/^My names is: //p' "$out/client$number.out")
        [[ $name ]] || fail_with_output "client $number has no name"
        echo "- $name"
    done >"$out/names"
    diff "$out/names" <(grep '^- ' "$out/server.out")
    expect_served
}

# run_immediate EXAMPLE ARGUMENTS SERVER-LINE: iWARP has no immediate data. The client ends with RPMA_E_PROVIDER, and the
# server's receive is flushed.
run_immediate() {
    local status=0 server_status=0
    [[ $SOFTRDMA_DEVICE != siw* ]] || status=94 server_status=255
    use "$1"
    start_server 1 "$example/server" "$ADDRESS" $PORT
    # shellcheck disable=SC2086 # words
    start_client "$example/client" "$ADDRESS" $PORT $2
    end_client 1 $status
    end_server $server_status
    if ((status == 0)); then
        expect server "$3"
    else
        expect server 'unexpected completion: Work Request Flushed Error'
    fi
    expect_served
}

@test "01-connection: each side gets the other's private data" {
    run_pair 01-connection '' ''
    expect server 'Received a message: Hello server!$'
    expect client1 'Received a message: Hello client!$'
}
@test "02-read-to-volatile: the client reads the server's memory" {
    run_pair 02-read-to-volatile '' ''
    expect client1 'Read a message: Hello client!$'
}
@test "03-read-to-persistent: the server reads the client's memory" { run_hello 03-read-to-persistent; }
@test "04-write-to-persistent: the client writes to the server's memory" { run_hello 04-write-to-persistent; }
@test "05-flush-to-persistent: the client writes to the server's memory and flushes" {
    run_hello 05-flush-to-persistent
    expect client1 'RPMA_FLUSH_TYPE_PERSISTENT is NOT supported, RPMA_FLUSH_TYPE_VISIBILITY is used instead$'
}
# bats test_tags=idle
@test "06-multiple-connections: the server reads the memory of four clients" { run_names 06-multiple-connections; }
# bats test_tags=idle
@test "06scch-multiple-connections: the same with shared completion channels" { run_names 06scch-multiple-connections; }
@test "07-atomic-write: the client appends words to the server's log" {
    run_pair 07-atomic-write '' '1st_word 2nd_word 3rd_word'
    expect client1 'used value: 16$'
    expect server '^1st_word$' '^2nd_word$' '^3rd_word$'
}
@test "08-messages-ping-pong: messages in both directions" { run_counter 08-messages-ping-pong 'Value sent: 9$' 'Value received: 9$'; }
@test "08srq-simple-messages-ping-pong-with-srq: receives of an SRQ with its own CQ" {
    run_pair 08srq-simple-messages-ping-pong-with-srq '' '7 3'
    expect client1 'Value received: 9$'
    expect server 'Value sent: 9$'
}
@test "08srq-simple-messages-ping-pong-with-srq m: receives of an SRQ, completions in the connection's main CQ" {
    run_pair 08srq-simple-messages-ping-pong-with-srq m '7 3'
    expect client1 'Value received: 9$'
    expect server 'Value sent: 9$'
}
@test "08srq-simple-messages-ping-pong-with-srq r: receives of an SRQ, completions in the connection's receive CQ" {
    run_pair 08srq-simple-messages-ping-pong-with-srq r '7 3'
    expect client1 'Value received: 9$'
    expect server 'Value sent: 9$'
}
@test "09-flush-to-persistent-GPSPM: the server flushes on request" {
    run_hello 09-flush-to-persistent-GPSPM
    expect server 'Flush request received: .offset: 0x0, length: 0x400, op_context: 0xF01D.$'
}
@test "09scch-flush-to-persistent-GPSPM: the same with a shared completion channel" {
    run_hello 09scch-flush-to-persistent-GPSPM
    expect server 'Flush request received: .offset: 0x0, length: 0x400, op_context: 0xF01D.$'
}
@test "10-send-with-imm: a message with immediate data" {
    run_immediate 10-send-with-imm '1234 1st_word' "Received value '1st_word' with immediate data '1234'\$"
}
@test "10-send-with-imm: immediate data without a message" {
    run_immediate 10-send-with-imm 305419896 "Received value '' with immediate data '305419896'\$"
}
@test "11-write-with-imm: a Write with immediate data" {
    run_immediate 11-write-with-imm 1234 "The value '1234' was written together with immediate data '1234'\$"
}
@test "12-receive-completion-queue: receive completions in a CQ of their own" {
    run_counter 12-receive-completion-queue 'Value sent: 9$' 'Value received: 9$'
}
@test "12scch-receive-completion-queue: two CQs with a shared completion channel" {
    run_counter 12scch-receive-completion-queue 'Value sent: 9$' 'Value received: 9$'
}
# bats test_tags=idle
@test "13-messages-ping-pong-with-srq: three clients at the same time" {
    local number seed seeds=(1 5 10)
    use 13-messages-ping-pong-with-srq
    start_server 1 "$example/server" "$ADDRESS" $PORT 10 # seconds after a client in which it waits for another
    for seed in "${seeds[@]}"; do start_client "$example/client" "$ADDRESS" $PORT "$seed" 3; done
    for number in 1 2 3; do
        end_client $number 0
        seed=${seeds[number - 1]}
        expect "client$number" "value sent: $((seed + 2))\$" "value received: $((seed + 3))\$"
        expect server "value received: $((seed + 2)) from" "value sent: $((seed + 3)) to|value sent: $((seed + 3)) from"
    done
    end_server 0
    expect server 'The client #3 has been connected\.$'
    expect_served
}
# The example contains the original's log.c. Its default function is set by the constructor of the original's library,
# whose call of rpma_log_set_function() gets to the example. Ours has no constructor.
@test "log: messages go to the standard error, and to the program's function" {
    out=$BATS_TEST_TMPDIR
    prepare examples/log/log
    start_client "$PROGRAMS/examples/log/log"
    end_client 1 0
    expect client1 '^Custom log handling: $' '^level: 3 Just a notice$' '^level: 1 Error due to order 66$'
    [[ $CLIENT_LIBRARY == coherdma ]] || expect client1 'log_worker_is_doing_something: Just a notice$'
}
