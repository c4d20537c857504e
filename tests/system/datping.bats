#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# datping and datinfo over coherdma's provider, on rxe and siw: data by every mode; what is wrong with
# them is seen; and peers that lie, die, are silent or speak another language (datping_peer.cpp) are
# named and survived.
# Run by ci/stages: softrdma run --driver both -- bats tests/system/datping.bats

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/datping.bash"

setup() {
    export LD_LIBRARY_PATH=$BUILD/release/udapl${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export DAT_OVERRIDE=$BATS_TEST_TMPDIR/dat.conf
    "$info" --conf >"$DAT_OVERRIDE"
    export COHERDMA_DAT_LIVE=0 # the devices' names of that file, and no others
    rxe0=$SOFTRDMA_RXE_DEVICE siw0=$SOFTRDMA_SIW_DEVICE
}

@test "rxe: datping moves data by every mode, whole" { whole rxe; }
@test "siw: datping moves data by every mode, whole" { whole siw; }

@test "rxe: a bit that was changed is seen, by each mode" {
    for mode in send write read pingpong; do flipped rxe $mode; done
}
@test "siw: a bit that was changed is seen, by each mode" {
    for mode in send write read pingpong; do flipped siw $mode; done
}

@test "data of the round before are not taken for this one's" {
    liar rxe stale
    run -1 "$ping" "$rxe" -m write -c 3
    [[ ${lines[2]} == 'round 2 (write): 64 of 64 bytes wrong here; at 0 is '* ]]
    [[ $(row write) == '3 2' ]]
}

@test "what the server sees to be wrong is told, and --no-verify looks at nothing" {
    liar rxe accuses
    run -1 "$ping" "$rxe" -m send -c 1
    [[ ${lines[2]} == 'round 1 (send): 3 of 64 bytes wrong there; at 7 is 0x01, not 0x02' ]]
    ended 0
    liar rxe flips
    run -0 "$ping" "$rxe" -m send -c 5 --no-verify
    [[ $output == *'not verified'* ]]
}

@test "rxe: servers that are none, are silent, die or babble are told" { each_told rxe; }
@test "siw: servers that are none, are silent, die or babble are told" { each_told siw; }

@test "a server of something else is told" {
    liar rxe foreign
    run -1 "$ping" "$rxe"
    [[ $output == *"who answers at $rxe, qualifier 7175, is not a datping"* ]]
}

@test "rxe: a server survives clients of every kind" { survives_all rxe; }
@test "siw: a server survives clients of every kind" { survives_all siw; }

@test "several clients at once" {
    serve rxe
    local -a clients=()
    for number in 1 2 3 4; do
        "$ping" "$rxe" -m all -c 30 -S 2k -q 3>&- &
        clients+=($!)
    done
    for number in "${clients[@]}"; do wait "$number"; done
    kill -INT "$server"
    ended 0
    [[ $(grep -c 'rounds: 120, wrong: 0$' "$BATS_TEST_TMPDIR/server.out") == 4 ]]
}

@test "more clients than a server takes are told so" {
    serve rxe
    local -a clients=()
    for number in $(seq 16); do
        "$ping" "$rxe" -c 0 -i 60 -q >/dev/null 2>&1 3>&- &
        clients+=($!)
    done
    awaited 30 said server '\(client 16\)' >/dev/null
    run -1 "$ping" "$rxe"
    [[ $output == *"refused: it has as many clients as it takes" ]]
    kill "${clients[@]}"
}

@test "the IA is chosen by the host's address, or by name" {
    for driver in rxe siw; do
        serve $driver
        run -0 "$ping" "${!driver}" -c 1
        [[ ${lines[0]} == "DATPING ${!driver}: 64 bytes, verified" ]]
        [[ ${lines[1]} == "IA $(of $driver DEVICE) (${!driver}), qualifier 7175, lmr_sync_req: no here, no there" ]]
        kill -INT "$server"
        ended 0
    done
    run -1 "$ping" -I nonsense "$rxe"
    [[ $output == 'datping: no IA is named nonsense; there are: '"$rxe0, $siw0; type: datinfo" ]]
}

@test "nobody listens, or nobody is there" {
    for driver in rxe siw; do
        run -1 "$ping" "${!driver}" -p 4711 -t 5
        [[ $output == *"no connection to ${!driver} (DAT_CONNECTION_EVENT_"*'is `datping -s` running there, with -p 4711?'* ]]
        run -1 timeout 30 "$ping" "${!driver%.*}.77" -t 2
        echo "$output"
        [[ $output =~ 'no '('connection to'|'answer from')" ${!driver%.*}.77" ]]
    done
    run -1 "$ping" 127.0.0.1 -I "$rxe0" -t 2
    [[ $output == *"the loopback has no RDMA; the address of IA $rxe0 is $rxe"* ]]
}

@test "a qualifier that is taken, and a size that is too large" {
    serve rxe -S 1k
    run -1 "$ping" -s -I "$rxe0"
    [[ $output == *'DAT_CONN_QUAL_IN_USE'*'-p chooses another' ]]
    run -1 "$ping" "$rxe" -S 2k
    [[ $output == *"refused: the size is too large for it; it takes 1024 bytes, its -S changes that" ]]
    run -0 "$ping" "$rxe" -S 1k
}

@test "--json is one document, and --once ends with what came of it" {
    serve rxe --once --json
    run -0 --separate-stderr "$ping" "$rxe" -m all -c 4 -S 100 --json
    [[ $(jq -c '[.schema, .ia, .size, .good, .problem, (.modes | map(.rounds)), (.modes | map(.wrong))]' <<<"$output") \
        == '[1,"'"$rxe0"'",100,true,null,[4,4,4,4],[0,0,0,0]]' ]]
    jq -e '.modes[] | .microseconds | .min <= .median and .median <= .p99 and .p99 <= .max and .min > 0' <<<"$output"
    ended 0
    [[ $(sed -n '/^{/,$p' "$BATS_TEST_TMPDIR/server.out" | jq -c '[.good, .clients[0].rounds, .clients[0].problem]') == '[true,16,null]' ]]
    serve rxe --once
    "$peer" client flips "$rxe0" "$rxe" 7175
    ended 1
    run -1 --separate-stderr "$ping" "$rxe" --json
    [[ $(jq -c '[.good, .connected]' <<<"$output") == '[false,false]' && $(jq -r .problem <<<"$output") == 'no connection'* ]]
}

@test "80 columns, a line for each round with -v, and nothing with -q" {
    serve siw
    run -0 "$ping" "$siw" -v -m all -c 2 -S 64k
    (($(wc -L <<<"$output") <= 80)) # without wc there would be none
    [[ $(grep -c "^65536 bytes from $siw: round=[1-8] mode=" <<<"$output") == 8 ]]
    run -0 "$ping" "$siw" -q
    [[ -z $output ]]
    run -0 "$ping" "$siw" -c 3 -i 0.3
    [[ $output =~ '3 rounds in 0.'[6-9] ]]
}

@test "Ctrl-C ends client and server well" {
    serve rxe
    "$ping" "$rxe" -c 0 >"$BATS_TEST_TMPDIR/client.out" 3>&- &
    awaited 20 said client lmr_sync_req >/dev/null
    sleep 0.2
    kill -INT $!
    wait $!
    said client '^pingpong +[1-9][0-9]* +0 '
    kill -INT "$server"
    ended 0
    said server '\(client 1\): rounds: [1-9][0-9]*, wrong: 0$'
}

@test "a client is told when its server is stopped" {
    serve siw
    "$ping" "$siw" -v -c 0 -i 0.1 >"$BATS_TEST_TMPDIR/client.out" 2>&1 3>&- &
    local client=$!
    awaited 20 said client round=2 >/dev/null
    kill -INT "$server"
    ended 0
    local status=0
    wait $client || status=$?
    cat "$BATS_TEST_TMPDIR/client.out"
    ((status == 1))
    said client "datping: $siw (hung up, or died,|is gone) (in round|between two rounds)"
}

@test "IPv6, by an address of the network and one of the link" {
    local driver number=1
    for driver in rxe siw; do
        local netdev link
        netdev=$(of $driver NETDEV)
        ip -6 addr add "fd77:$number::1/64" dev "$netdev" nodad
        link=$(ip -6 -o addr show dev "$netdev" scope link | sed -nE 's,.* inet6 ([^/]*)/.*,\1,p')
        serve $driver
        for address in "fd77:$number::1" "$link%$netdev"; do
            run -0 "$ping" "$address" -m all -c 5
            [[ ${lines[1]} == "IA $(of $driver DEVICE) "* && $output == *'20 rounds'*'all data right'* ]]
        done
        kill -INT "$server"
        ended 0
        number=$((number + 1))
    done
}

@test "lmr_sync_req is told of both sides, and data are whole where it is yes" {
    COHERDMA_COHERENT=no serve siw
    run -0 "$ping" "$siw" -m all -c 10 -S 5000
    [[ ${lines[1]} == *'lmr_sync_req: no here, yes there' ]]
    COHERDMA_COHERENT=no run -0 "$ping" "$siw" -m all -c 10 -S 5000 --json
    [[ $(jq -c .lmr_sync_req <<<"$output") == '{"here":true,"there":true}' ]]
}

# A round by each mode: what a peer will read is synced before, what it writes before and after.
@test "memory is synced around what the other side does to it" {
    local client='receive send ' round='receive sync-read sync-write ' served='receive sync-write receive send '
    client+="${round}send ${round}write send sync-write ${round}send read ${round}send sync-write send "
    served+='receive send ' # send
    served+='sync-write write sync-write receive send '
    served+='read sync-read sync-write receive send '
    served+='read write receive send ' # pingpong
    export LD_PRELOAD=$BUILD/release/tests/libdat_calls.so
    DAT_CALLS=$BATS_TEST_TMPDIR/served serve rxe --once
    DAT_CALLS=$BATS_TEST_TMPDIR/client run -0 "$ping" "$rxe" -m all -c 1
    unset LD_PRELOAD
    ended 0
    diff <(echo "$client") <(echo "$(<"$BATS_TEST_TMPDIR/client")")
    diff <(echo "$served") <(echo "$(<"$BATS_TEST_TMPDIR/served")")
}

@test "datinfo: a line for each IA, and those that cannot be opened" {
    {
        echo 'lost u2.0 nonthreadsafe default libnosuch.so.2 dapl.2.0 "x 1" ""'
        echo 'old u1.2 nonthreadsafe default libdaplofa.so.2 dapl.1.2 "x 1" ""'
    } >>"$DAT_OVERRIDE"
    run -0 --separate-stderr "$info"
    echo "$output"
    [[ -z $stderr ]]
    (($(wc -L <<<"$output") <= 80))
    [[ ${lines[1]} =~ ^$rxe0\ +"$rxe0"\ +RoCE/IB\ +"$rxe"\ +no\ +libdaplcoherdma.so.2$ ]]
    [[ ${lines[2]} =~ ^$siw0\ +"$siw0"\ +iWARP\ +"$siw"\ +no\ +libdaplcoherdma.so.2$ ]]
    [[ $output == *'Cannot be opened:'*'  lost'*DAT_PROVIDER_NOT_FOUND*'  old'*'is of uDAPL 1.2' ]]
    run -0 --separate-stderr "$info" --json
    [[ $(jq -c '.ias | map([.name, .open, .device])' <<<"$output") \
        == "[[\"$rxe0\",true,\"$rxe0\"],[\"$siw0\",true,\"$siw0\"],[\"lost\",false,null],[\"old\",false,null]]" ]]
    run -1 "$info" lost
    [[ $output == 'datinfo: lost: DAT_PROVIDER_NOT_FOUND'* ]]
    COHERDMA_DAT_LIVE=1 run -0 --separate-stderr "$info"
    grep -qx "  also .*ofa-v2-$rxe0-1.*" <<<"$output"
}

@test "datinfo: all attributes of an IA" {
    run -0 --separate-stderr "$info" "$rxe0" "$siw0"
    (($(grep -vE '^  (library|registry) ' <<<"$output" | wc -L) <= 80))
    [[ $(grep -c '^IA [a-z0-9]*$' <<<"$output") == 2 ]]
    grep -qx "  adapter_name  *$rxe0" <<<"$output"
    grep -qx '  lmr_sync_req  *no' <<<"$output"
    grep -qx '  DAT_IB_RDMA_READ  *TRUE' <<<"$output"
    run -0 --separate-stderr "$info" "$rxe0" --json
    jq -e '.ias[0] | .ia_attributes.max_eps > 0 and .provider_attributes.max_private_data_size == 56' <<<"$output"
    [[ $(COHERDMA_COHERENT=no "$info" "$rxe0" --json | jq .ias[0].lmr_sync_req) == true ]]
}

@test "completion: IAs" {
    PATH=${ping%/*}:${info%/*}:$PATH
    source "$BATS_TEST_DIRNAME/../../completions/datping"
    source "$BATS_TEST_DIRNAME/../../completions/datinfo"
    COMP_WORDS=(datping -I '') COMP_CWORD=2
    _datping
    [[ ${COMPREPLY[*]} == "$rxe0 $siw0" ]]
    COMP_WORDS=(datinfo s) COMP_CWORD=1
    _datinfo
    [[ ${COMPREPLY[*]} == "$siw0" ]]
}

@test "datinfo --conf: records that a registry reads" {
    "$info" --conf >"$BATS_TEST_TMPDIR/made.conf"
    [[ $(grep -vc '^#' "$BATS_TEST_TMPDIR/made.conf") == 4 ]]
    DAT_OVERRIDE=$BATS_TEST_TMPDIR/made.conf run -0 --separate-stderr "$info" --json
    [[ $(jq -c '.ias | map(select(.records | map(.thread_safe) == [false, true]) | .name)' <<<"$output") \
        == "[\"$rxe0\",\"$siw0\"]" ]]
}
