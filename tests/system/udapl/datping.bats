#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# datping and datinfo over coherdma's provider, on rxe and siw: data are verified in every mode, wrong data are
# found, and faulty peers (datping_peer.cpp) are reported and survived.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/datping.bash"

setup_file() {
    export LD_LIBRARY_PATH=$BUILD/udapl${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export DAT_OVERRIDE=$BATS_FILE_TMPDIR/dat.conf
    "$info" --conf >"$DAT_OVERRIDE"
    export COHERDMA_DAT_LIVE=0 # the names of that file only
}
setup() {
    rxe0=$SOFTRDMA_RXE_DEVICE siw0=$SOFTRDMA_SIW_DEVICE
}

# bats test_tags=gate
@test "rxe: datping verifies data in every mode" { verify_all_modes rxe; }
# bats test_tags=gate
@test "siw: datping verifies data in every mode" { verify_all_modes siw; }

# bats test_tags=gate
@test "rxe: datping finds a flipped bit in every mode" {
    for mode in send write read pingpong; do expect_flipped_bit_found rxe $mode; done
}
# bats test_tags=gate
@test "siw: datping finds a flipped bit in every mode" {
    for mode in send write read pingpong; do expect_flipped_bit_found siw $mode; done
}

@test "rxe: datping finds stale data of the round before" {
    start_faulty_server rxe stale-data
    run_direct -1 "$ping" "$rxe" -m write -c 3
    [[ ${lines[2]} == 'round 2 (write): 64 of 64 bytes wrong here; at 0 is '* ]]
    has_rounds write 3 2
}

@test "rxe: datping prints errors that the server found; --no-verify verifies nothing" {
    start_faulty_server rxe reports-errors
    run_direct -1 "$ping" "$rxe" -m send -c 1
    [[ ${lines[2]} == 'round 1 (send): 3 of 64 bytes wrong there; at 7 is 0x01, not 0x02' ]]
    expect_server_status 0
    start_faulty_server rxe flipped-bit
    run_direct -0 "$ping" "$rxe" -m send -c 5 --no-verify
    [[ $output == *'not verified'* ]]
}

@test "rxe: datping reports faulty servers" { expect_server_faults_reported rxe; }
@test "siw: datping reports faulty servers" { expect_server_faults_reported siw; }

@test "rxe: datping reports a server that is not datping" {
    start_faulty_server rxe not-datping
    run_direct -1 "$ping" "$rxe"
    [[ $output == *"the server at $rxe, qualifier 7175, is not a datping"* ]]
}

@test "rxe: a datping server reports and survives faulty clients" { expect_client_faults_survived rxe; }
@test "siw: a datping server reports and survives faulty clients" { expect_client_faults_survived siw; }

@test "rxe: a client holds a slot no longer than the server's limits" {
    expect_holding_clients_ended rxe holds-silently holds-advertised holds-started
}
@test "siw: a client holds a slot no longer than the server's limits" {
    expect_holding_clients_ended siw holds-silently holds-advertised # siw ends a connection without a Receive
}

@test "siw: a client may pause between rounds for longer than the server waits for a message" {
    start_server siw -t 3
    run_direct -0 "$ping" "$siw" -c 2 -i 5
    stop_server 0
}

@test "a datping server rejects a client that announces longer pauses than it allows" {
    start_server rxe
    expect_client_fault_reported rxe endless-silence 'rejected: it pauses for up to 4294967.295 s, more than 60; -i changes the limit'
    run_direct -1 "$ping" "$rxe" -i 61 -c 1
    [[ $output == *"rejected the connection: the interval exceeds its limit of 60 s; see option -i of its server" ]]
    run_direct -0 "$ping" "$rxe" -i 60 -c 1
    stop_server 0
    start_server siw -i 0.5
    run_direct -1 "$ping" "$siw" -i 0.6 -c 1
    run_direct -0 "$ping" "$siw" -i 0.5 -c 2
    stop_server 0
}

@test "rxe: a datping server ends a client that sends on without its replies" {
    start_server rxe -t 120
    expect_client_fault_reported rxe sends-on 'sent an invalid message: START before DONE of the round before'
    stop_server 1
}

@test "rxe: four large clients leave memory for small ones" {
    start_server rxe -S 32M -t 120 # none of them pauses for longer
    local -a clients=()
    for number in {1..4}; do
        "$ping" "$rxe" -S 2049k -c 0 -i 60 -q >/dev/null 2>&1 3>&- &
        clients+=($!)
    done
    wait_for_output server '\(client 4\)'
    run_direct -1 "$ping" "$rxe" -S 2049k -c 1
    [[ $output == *"rejected the connection: it lacks memory or other resources for another client" ]]
    expect_output server 'rejected: it requests 2098176 bytes, and 4 clients have more than 2097152'
    run_direct -0 "$ping" "$rxe" -S 2M -c 1
    kill "${clients[@]}"
    wait "${clients[@]}" || true # their status is that of the signal
    run_direct -0 "$ping" "$rxe" -S 32M -c 1
}

@test "rxe: a datping server serves four clients at once" {
    start_server rxe
    local -a clients=()
    for number in 1 2 3 4; do
        "$ping" "$rxe" -m all -c 30 -S 2k -q 3>&- &
        clients+=($!)
    done
    for number in "${clients[@]}"; do wait "$number"; done
    stop_server 0
    [[ $(grep -c 'rounds: 120, wrong: 0$' "$BATS_TEST_TMPDIR/server.out") == 4 ]]
}

@test "rxe: a datping server rejects a 17th client" {
    start_server rxe -t 120 # no client pauses for longer
    local -a clients=()
    for number in {1..16}; do
        "$ping" "$rxe" -c 0 -i 60 -q >/dev/null 2>&1 3>&- &
        clients+=($!)
    done
    wait_for_output server '\(client 16\)'
    run_direct -1 "$ping" "$rxe"
    [[ $output == *"rejected the connection: it has the maximum number of clients" ]]
    kill "${clients[@]}"
}

@test "datping selects the IA by the address of the host, or by name" {
    for driver in rxe siw; do
        start_server $driver
        run_direct -0 "$ping" "${!driver}" -c 1
        [[ ${lines[0]} == "DATPING ${!driver}: 64 bytes, verified" ]]
        [[ ${lines[1]} == "IA $(device_fact $driver DEVICE) (${!driver}), qualifier 7175, lmr_sync_req: no here, no there" ]]
        stop_server 0
    done
    run_direct -1 "$ping" -I bogus "$rxe"
    [[ $output == 'datping: no IA is named bogus; there are: '"$rxe0, $siw0; type: datinfo" ]]
}

@test "datping reports that no server listens, or no host answers" {
    for driver in rxe siw; do
        run_direct -1 "$ping" "${!driver}" -p 4711 -t 5
        [[ $output == *"no connection to ${!driver} (DAT_CONNECTION_EVENT_"*'is `datping -s` running there, with -p 4711?'* ]]
        run_direct -1 "$ping" "${!driver%.*}.77" -t 2
        echo "$output"
        [[ $output =~ 'no '('connection to'|'answer from')" ${!driver%.*}.77" ]]
    done
    run_direct -1 "$ping" 127.0.0.1 -I "$rxe0" -t 2
    [[ $output == *"the loopback has no RDMA; the address of IA $rxe0 is $rxe"* ]]
}

@test "rxe: datping reports a qualifier in use and a size that is too large" {
    start_server rxe -S 1k
    run_direct -1 "$ping" -s -I "$rxe0"
    [[ $output == *'DAT_CONN_QUAL_IN_USE'*'-p chooses another' ]]
    run_direct -1 "$ping" "$rxe" -S 2k
    [[ $output == *"rejected the connection: the size exceeds its limit of 1024 bytes; see option -S of its server" ]]
    run_direct -0 "$ping" "$rxe" -S 1k
}

@test "rxe: --json prints one document; the status of --once is that of its client" {
    start_server rxe --once --json
    run_direct -0 --separate-stderr "$ping" "$rxe" -m all -c 4 -S 100 --json
    [[ $(jq -c '[.schema, .ia, .size, .good, .problem, (.modes | map(.rounds)), (.modes | map(.wrong))]' <<<"$output") \
        == '[1,"'"$rxe0"'",100,true,null,[4,4,4,4],[0,0,0,0]]' ]]
    jq -e '.modes[] | .microseconds | .min <= .median and .median <= .p99 and .p99 <= .max and .min > 0' <<<"$output"
    expect_server_status 0
    [[ $(sed -n '/^{/,$p' "$BATS_TEST_TMPDIR/server.out" | jq -c '[.good, .clients[0].rounds, .clients[0].problem]') == '[true,16,null]' ]]
    start_server rxe --once
    "$peer" client flipped-bit "$rxe0" "$rxe" 7175
    expect_server_status 1
    run_direct -1 --separate-stderr "$ping" "$rxe" --json
    [[ $(jq -c '[.good, .connected]' <<<"$output") == '[false,false]' && $(jq -r .problem <<<"$output") == 'no connection'* ]]
}

@test "siw: datping prints 80 columns, a line for each round with -v, nothing with -q; -i sets the interval" {
    start_server siw
    run_direct -0 "$ping" "$siw" -v -m all -c 2 -S 64k
    (($(wc -L <<<"$output") <= 80))
    [[ $(grep -c "^65536 bytes from $siw: round=[1-8] mode=" <<<"$output") == 8 ]]
    run_direct -0 "$ping" "$siw" -q
    [[ -z $output ]]
    run_direct -0 "$ping" "$siw" -c 3 -i 0.3
    # A lower bound: three rounds have two intervals between them.
    [[ $output =~ '3 rounds in '([0-9.]+)' s' ]]
    awk -v seconds="${BASH_REMATCH[1]}" 'BEGIN { exit !(seconds >= 0.6) }'
}

@test "rxe: SIGINT ends client and server with their results" {
    start_server rxe
    "$ping" "$rxe" -v -c 0 >"$BATS_TEST_TMPDIR/client.out" 3>&- &
    wait_for_output client round=2
    kill -INT $!
    wait $!
    expect_output client '^pingpong +[1-9][0-9]* +0 '
    stop_server 0
    expect_output server '\(client 1\): rounds: [1-9][0-9]*, wrong: 0$'
}

@test "siw: datping reports that its server was stopped" {
    start_server siw
    "$ping" "$siw" -v -c 0 -i 0.1 >"$BATS_TEST_TMPDIR/client.out" 2>&1 3>&- &
    local client=$!
    wait_for_output client round=2
    stop_server 0
    local status=0
    wait $client || status=$?
    cat "$BATS_TEST_TMPDIR/client.out"
    ((status == 1))
    expect_output client "datping: $siw (disconnected or exited|lost the connection) (in round|between rounds)"
}

@test "datping connects by a global and a link-local IPv6 address" {
    local driver number=1
    for driver in rxe siw; do
        local netdev link
        netdev=$(device_fact $driver NETDEV)
        ip -6 addr add "fd77:$number::1/64" dev "$netdev" nodad
        link=$(ip -6 -o addr show dev "$netdev" scope link | sed -nE 's,.* inet6 ([^/]*)/.*,\1,p')
        start_server $driver
        for address in "fd77:$number::1" "$link%$netdev"; do
            run_direct -0 "$ping" "$address" -m all -c 5
            [[ ${lines[1]} == "IA $(device_fact $driver DEVICE) "* && $output == *'20 rounds'*'all data right'* ]]
        done
        stop_server 0
        number=$((number + 1))
    done
}

@test "siw: datping prints lmr_sync_req of both sides, and verifies data where it is yes" {
    COHERDMA_COHERENT=no start_server siw
    run_direct -0 "$ping" "$siw" -m all -c 10 -S 5000
    [[ ${lines[1]} == *'lmr_sync_req: no here, yes there' ]]
    COHERDMA_COHERENT=no run_direct -0 "$ping" "$siw" -m all -c 10 -S 5000 --json
    [[ $(jq -c .lmr_sync_req <<<"$output") == '{"local":true,"peer":true}' ]]
}

# A round in each mode: memory that the peer reads is synced before, memory that it writes before and after.
@test "rxe: datping syncs memory around RDMA operations of its peer" {
    local client='receive send ' round='receive sync-read sync-write ' served='receive sync-write receive send '
    client+="${round}send ${round}write send sync-write ${round}send read ${round}send sync-write send "
    served+='sync-write receive send ' # send
    served+='sync-write write sync-write receive send '
    served+='read sync-read sync-write receive send '
    served+='read write sync-write receive send ' # pingpong
    export LD_PRELOAD=$BUILD/tests/system/udapl/libdat_calls.so
    DAT_CALLS=$BATS_TEST_TMPDIR/served start_server rxe --once
    DAT_CALLS=$BATS_TEST_TMPDIR/client run_direct -0 "$ping" "$rxe" -m all -c 1
    unset LD_PRELOAD
    expect_server_status 0
    diff <(echo "$client") <(echo "$(<"$BATS_TEST_TMPDIR/client")")
    diff <(echo "$served") <(echo "$(<"$BATS_TEST_TMPDIR/served")")
}

@test "datinfo prints a line for each IA that can be opened, with --all also the others" {
    {
        cat "$DAT_OVERRIDE"
        echo 'lost u2.0 nonthreadsafe default libnosuch.so.2 dapl.2.0 "x 1" ""'
        echo 'old u1.2 nonthreadsafe default libdaplofa.so.2 dapl.1.2 "x 1" ""'
    } >"$BATS_TEST_TMPDIR/dat.conf"
    DAT_OVERRIDE=$BATS_TEST_TMPDIR/dat.conf
    run_direct -0 --separate-stderr "$info"
    echo "$output"
    [[ -z $stderr ]]
    (($(wc -L <<<"$output") <= 80))
    [[ ${lines[1]} =~ ^$rxe0\ +"$rxe0"\ +RoCE/IB\ +"$rxe"\ +no\ +libdaplcoherdma.so.2$ ]]
    [[ ${lines[2]} =~ ^$siw0\ +"$siw0"\ +iWARP\ +"$siw"\ +no\ +libdaplcoherdma.so.2$ ]]
    [[ ${#lines[@]} == 4 && ${lines[3]} == 'Cannot be opened: 2 names; for the reasons, type: datinfo --all' ]]
    local table=${output%$'\n'*}
    run_direct -0 --separate-stderr "$info" --all
    (($(wc -L <<<"$output") <= 80))
    [[ $output == "$table"$'\nCannot be opened:\n  lost\n    DAT_PROVIDER_NOT_FOUND'*$'\n  old\n    only for programs of uDAPL 1.2; datinfo is one of 2.0' ]]
    run_direct -0 --separate-stderr "$info" --json
    [[ $(jq -c '.ias | map(.name)' <<<"$output") == "[\"$rxe0\",\"$siw0\"]" ]]
    run_direct -0 --separate-stderr "$info" --json --all
    [[ $(jq -c '.ias | map([.name, .open, .device])' <<<"$output") \
        == "[[\"$rxe0\",true,\"$rxe0\"],[\"$siw0\",true,\"$siw0\"],[\"lost\",false,null],[\"old\",false,null]]" ]]
    run_direct -1 "$info" lost
    [[ $output == 'datinfo: lost: DAT_PROVIDER_NOT_FOUND'* ]]
    COHERDMA_DAT_LIVE=1 run_direct -0 --separate-stderr "$info"
    grep -qx "  also .*ofa-v2-$rxe0-1.*" <<<"$output"
}

@test "datinfo prints all attributes of an IA" {
    run_direct -0 --separate-stderr "$info" "$rxe0" "$siw0"
    (($(grep -vE '^  (library|registry) ' <<<"$output" | wc -L) <= 80))
    [[ $(grep -c '^IA [a-z0-9]*$' <<<"$output") == 2 ]]
    grep -qx "  adapter_name  *$rxe0" <<<"$output"
    grep -qx '  lmr_sync_req  *no' <<<"$output"
    grep -qx '  DAT_IB_RDMA_READ  *TRUE' <<<"$output"
    run_direct -0 --separate-stderr "$info" "$rxe0" --json
    jq -e '.ias[0] | .ia_attributes.max_eps > 0 and .provider_attributes.max_private_data_size == 56' <<<"$output"
    [[ $(COHERDMA_COHERENT=no "$info" "$rxe0" --json | jq .ias[0].lmr_sync_req) == true ]]
}

@test "shell completion offers the IAs" {
    PATH=${ping%/*}:${info%/*}:$PATH
    source "$BATS_TEST_DIRNAME/../../../completions/datping"
    source "$BATS_TEST_DIRNAME/../../../completions/datinfo"
    COMP_WORDS=(datping -I '') COMP_CWORD=2
    _datping
    [[ ${COMPREPLY[*]} == "$rxe0 $siw0" ]]
    COMP_WORDS=(datinfo s) COMP_CWORD=1
    _datinfo
    [[ ${COMPREPLY[*]} == "$siw0" ]]
}

@test "datinfo --conf prints entries that a registry reads" {
    "$info" --conf >"$BATS_TEST_TMPDIR/made.conf"
    [[ $(grep -vc '^#' "$BATS_TEST_TMPDIR/made.conf") == 8 ]]
    local entries='[["2.0",false],["2.0",true],["1.2",false],["1.2",true]]'
    DAT_OVERRIDE=$BATS_TEST_TMPDIR/made.conf run_direct -0 --separate-stderr "$info" --json
    [[ $(jq -c '.ias | map([.name, (.entries | map([.version, .thread_safe]))])' <<<"$output") \
        == "[[\"$rxe0\",$entries],[\"$siw0\",$entries]]" ]]
}

@test "programs of uDAPL 2.0 and 1.2 open each entry of datinfo --conf" {
    local -A programs=([u2.0]=names [u1.2]=names_dat1) others=([u2.0]=names_dat1 [u1.2]=names)
    local -A options=([nonthreadsafe]='' [threadsafe]=-t)
    local entry name version safety count=0
    "$info" --conf >"$BATS_TEST_TMPDIR/made.conf"
    export DAT_OVERRIDE=$BATS_TEST_TMPDIR/entry.conf
    while IFS= read -r entry; do
        echo "$entry" >"$DAT_OVERRIDE"
        read -r name version safety _ <<<"$entry"
        # shellcheck disable=SC2086 # no option is no word
        run_direct -0 "$BUILD/tests/system/udapl/${programs[$version]}" ${options[$safety]} "$name"
        [[ $output == "$name: DAT_SUCCESS " ]]
        # shellcheck disable=SC2086
        run_direct -1 "$BUILD/tests/system/udapl/${others[$version]}" ${options[$safety]} "$name"
        [[ $output == "$name: DAT_PROVIDER_NOT_FOUND "* ]]
        count=$((count + 1))
    done < <(grep -v '^#' "$BATS_TEST_TMPDIR/made.conf")
    ((count == 8))
}
