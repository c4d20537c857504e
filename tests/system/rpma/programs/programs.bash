# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# shellcheck shell=bash
#
# Runs programs of other projects that use librpma, as server and client. The environment names what they run with:
#
#   SERVER_LIBRARY, CLIENT_LIBRARY   librpma.so.0: distribution (Debian's), coherdma, or source (of the examples' source)
#   VERBS      libibverbs' driver of the device: stock or coherdma
#   SERVER_ON  command that enters the server's host, if there are two: `on 2`
#   PROGRAMS   where the programs are, if not where make_programs makes them
#   OUR_RPMA   the folder of our librpma.so.0, if not where it is built
#
# What they printed is in server.out and clientN.out of the test's folder.
source "${BASH_SOURCE[0]%/*}/../../lib/lib.bash"

SERVER_LIBRARY=${SERVER_LIBRARY:-distribution} CLIENT_LIBRARY=${CLIENT_LIBRARY:-distribution} VERBS=${VERBS:-stock}
: "${BUILD:=$PWD/build/release}"
: "${PROGRAMS:=$BUILD/rpma_programs}" "${OUR_RPMA:=$BUILD/rpma}"
LIMIT=${LIMIT:-120}
PORT=7204

# require PATH: of a program. The test is skipped if make_programs could not make it.
require() { [[ -e $PROGRAMS/$1 ]] || skip "there is no $1: see the log of rpma.programs.make_${1%%/*}"; }

set_library_folder() { # LIBRARY
    local libraries
    case $1 in
    coherdma) library_folder=$OUR_RPMA ;;
    source) library_folder=$PROGRAMS/src ;;
    distribution)
        libraries=("$PROGRAMS"/root/usr/lib/*/librpma.so.0)
        library_folder=${libraries[0]%/*}
        ;;
    *) echo "SERVER_LIBRARY and CLIENT_LIBRARY are distribution, source or coherdma, not $1" && return 2 ;;
    esac
}

# set_command SIDE PROGRAM...: sets words to the command with the parts, on the side's host. libprotobuf-c is Debian's.
# The output is not buffered: that of a killed program is complete, and no buffer of it shares a cache line with the 8
# bytes that examples receive into (KNOWN_FAULTS.md).
set_command() {
    local enter='' library=${1^^}_LIBRARY library_folder others=("$PROGRAMS"/root/usr/lib/*/libprotobuf-c.so.1)
    [[ $1 == client ]] || enter=${SERVER_ON:-}
    set_library_folder "${!library}"
    # shellcheck disable=SC2206 # words, or none
    words=(timeout -k 2 "$LIMIT" $enter env -u RDMAV_DRIVERS "LD_LIBRARY_PATH=$library_folder:${others[0]%/*}")
    [[ $VERBS == stock ]] || words+=("RDMAV_DRIVERS=$BUILD/provider/libcoherdma:$BUILD/provider/libcoherdma-observers" VERBS_LOG_LEVEL=3
        "VERBS_LOG_FILE=/run/$1.verbs")
    words+=(stdbuf -o0 "${@:2}")
}

# prepare PROGRAM...: ADDRESS is the server's. Each program finds the librpma that it is to run with: otherwise the
# loader takes another one without a message.
prepare() {
    local side program words library library_folder
    out=$BATS_TEST_TMPDIR server='' num_clients=0
    ADDRESS=$(${SERVER_ON:-} printenv SOFTRDMA_ADDRESS)
    ${SERVER_ON:-} rm -f /run/server.verbs
    rm -f /run/client.verbs
    for side in server client; do
        library=${side^^}_LIBRARY
        set_library_folder "${!library}"
        for program in "$@"; do
            set_command $side ldd "$PROGRAMS/$program"
            "${words[@]}" >"$out/$side.libraries" 2>&1
            has_line "librpma.so.0 => $library_folder/librpma.so.0 " "$out/$side.libraries" || {
                cat "$out/$side.libraries"
                return 1
            }
        done
    done
}

# start_server PORTS PROGRAM...: until it listens at so many ports, beginning with PORT.
start_server() {
    local words port ports=$1
    set_command server "${@:2}"
    empty_output server
    "${words[@]}" >"$out/server.out" 2>&1 3>&- & # without a shell around it
    server=$!
    for ((port = PORT; port < PORT + ports; ++port)); do
        wait_until is_ready_or_ended $server is_listening $port
        is_running $server || {
            end_server 0
            return 1
        }
    done
}
is_running() { kill -0 "$1" 2>/dev/null; } # PID

# start_client PROGRAM...: its output is in the next clientN.out, and its process in clients.
start_client() {
    local words
    set_command client "$@"
    num_clients=$((num_clients + 1))
    empty_output "client$num_clients"
    "${words[@]}" >"$out/client$num_clients.out" 2>&1 3>&- &
    clients[num_clients]=$!
}
# end_client NUMBER STATUS: it ends with that status.
end_client() {
    local status=0
    wait "${clients[$1]}" || status=$?
    [[ $status == "$2" ]] || fail_with_output "client $1 ended with $status, not $2"
}
# end_server STATUS: it ends by itself, with that status.
end_server() {
    local status=0
    wait "$server" || status=$?
    server=''
    [[ $status == "$1" ]] || fail_with_output "the server ended with $status, not $1"
}
# For teardown.
kill_all() {
    # shellcheck disable=SC2086 # words, or none
    kill ${server:-} "${clients[@]}" 2>/dev/null || true
}

fail_with_output() { # TEXT
    echo "$1"
    tail -n 40 "$out"/*.out
    return 1
}

# expect SIDE PATTERN...: it printed lines like these.
expect() {
    local pattern
    for pattern in "${@:2}"; do
        has_printed "$1" "$pattern" || fail_with_output "the $1 did not print '$pattern'" || return
    done
}
# expect_served: if our driver serves the device, it did so in the server and the clients. If the device is not coherent,
# as COHERDMA_EMULATE says, a client has met no fault of that. COHERDMA_EMULATE_EXIT is the status of one that has.
expect_served() {
    [[ $VERBS != stock ]] || return 0
    ${SERVER_ON:-} grep -qs 'is served by coherdma' /run/server.verbs || fail_with_output 'the server is not served by coherdma'
    grep -qs 'is served by coherdma' /run/client.verbs || fail_with_output 'the client is not served by coherdma'
    [[ ! ${COHERDMA_EMULATE:-} ]] || expect client1 'coherdma: emulation: no findings'
}
