# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# shellcheck shell=bash
#
# What the tests of datping share, whatever uDAPL is below it. An IA has the name of its device.
# shellcheck disable=SC2034,SC2154 # what they use, and what bats' run sets

source "$BATS_TEST_DIRNAME/lib.bash"
ping=$BUILD/release/tools/datping/datping
info=$BUILD/release/tools/datinfo/datinfo
peer=$BUILD/release/tests/datping_peer
rxe=$SOFTRDMA_RXE_ADDRESS siw=$SOFTRDMA_SIW_ADDRESS
server=''

teardown() {
    [[ ! $server ]] || kill "$server" 2>/dev/null || true
}

# in_background WORDS COMMAND...: as $server, until it has printed the words.
in_background() {
    local words=$1
    shift
    "$@" >"$BATS_TEST_TMPDIR/server.out" 2>&1 3>&- &
    server=$!
    awaited 20 said server "$words" >/dev/null
}
serve() { in_background listens "$ping" -s -I "$(of "$1" DEVICE)" "${@:2}"; } # DRIVER [OPTION...]
liar() { in_background ready "$peer" server "$2" "$(of "$1" DEVICE)" 7175; }  # DRIVER WHAT

# Of the server: its status, having been asked to end, or by itself.
ended() { # STATUS
    local status=0
    wait "$server" || status=$?
    server=''
    ((status == $1)) || { echo "the server ended with $status" && cat "$BATS_TEST_TMPDIR/server.out" && return 1; }
}

# A good client, at the end of a test: the server is still there for others.
still_serves() { # DRIVER
    run -0 "$ping" "${!1}" -c 3
    kill -INT "$server"
}

row() { awk -v mode="$1" '$1 == mode { print $2, $3 }' <<<"$output"; } # MODE: rounds and wrong ones

whole() { # DRIVER: data of all modes and sizes
    serve "$1"
    for size in 1 4097 256k; do
        run -0 --separate-stderr "$ping" "${!1}" -m all -c 10 -S $size
        echo "$output"
        for mode in send write read pingpong; do [[ $(row $mode) == '10 0' ]]; done
    done
    run -0 --separate-stderr "$ping" "${!1}" -m all -c 10 --poll
    kill -INT "$server"
    ended 0
    said server 'client 3.: rounds: 40, wrong: 0$'
    said server 'clients served: 4, refused: 0'
}
flipped() { # DRIVER MODE: by a server who changes a bit on the way back
    liar "$1" flips
    run -1 --separate-stderr "$ping" "${!1}" -m "$2" -c 2 -t 5
    echo "$output"
    [[ ${lines[2]} =~ ^"round 1 ($2): 1 of 64 bytes wrong here; at 32 is 0x"..", not 0x"..$ ]]
    [[ $(row "$2") == '2 2' && $output == *'2 rounds'*'2 WRONG'* ]]
    ended 0
}
# told DRIVER WHAT WORDS: of such a server a client says so, and does not wait for long.
told() {
    local begin=$SECONDS
    liar "$1" "$2"
    run -1 --separate-stderr "$ping" "${!1}" -t 3
    echo "$stderr"
    [[ $stderr == *"datping: ${!1} "*"$3"* ]]
    ((SECONDS - begin < 15))
    kill -9 "$server" 2>/dev/null || true # it may be a library that waits
    wait "$server" 2>/dev/null || true
    server=''
}
each_told() { # DRIVER
    told "$1" version 'speaks version 2 of datping, this one version 1'
    told "$1" garbage 'sent nonsense at the beginning'
    told "$1" silent 'did not answer at the beginning: nothing came for 3 s'
    told "$1" dies 'hung up, or died, in round 1 (pingpong) (DAT_CONNECTION_EVENT_DISCONNECTED)'
    told "$1" hangs-up 'hung up, or died, in round 1 (pingpong)'
    told "$1" round 'answered another round (round 2 of pingpong) in round 1'
}
# survives DRIVER WHAT WORDS: the server says so of such a client.
survives() {
    "$peer" client "$2" "$(of "$1" DEVICE)" "${!1}" 7175
    awaited 10 said server "$3" >/dev/null
}
survives_all() { # DRIVER
    serve "$1" -t 2
    survives "$1" foreign 'refused, as it is not a datping'
    survives "$1" nothing 'refused, as it is not a datping'
    survives "$1" order 'refused, as it writes numbers in another byte order'
    survives "$1" version 'refused, as it speaks version 2 of datping, we version 1'
    survives "$1" garbage 'sent nonsense: 96 bytes that are no message'
    survives "$1" small 'sent nonsense: an offer of less memory'
    survives "$1" silent 'was silent for too long'
    survives "$1" stays 'said bye, but did not hang up'
    survives "$1" flips 'rounds: 1, wrong: 1'
    survives "$1" dies 'hung up, or died, without a bye'
    survives "$1" wild 'our RDMA Read ended with DAT_DTO_ERR_REMOTE_ACCESS|client 7.*hung up, or died'
    still_serves "$1"
    ended 1
}
