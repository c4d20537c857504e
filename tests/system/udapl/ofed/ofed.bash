# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# shellcheck shell=bash
#
# Runs OFED's uDAPL programs, a server and a client, or one alone, with the parts that the environment
# names:
#
#   REGISTRY   libdat2.so.2: stock or coherdma
#   PROVIDER   what serves the IA: stock (OFED's over rdma_cm) or coherdma
#   VERBS      libibverbs' driver of the device: stock or coherdma; if not said, as PROVIDER
#   DRIVER     rxe or siw; if not said, that of the device that is there
#   SERVER_ON, CLIENT_ON   command that enters the side's host, if there are two: `on 2`
#   OUR_REGISTRY, OUR_PROVIDER, OUR_VERBS   where ours are, if not where they are built
#   SANITIZED  build folder with sanitizers, whose libdat2 and provider ours are then
#   LIMIT      seconds after which a program that hangs is ended
#
# What it printed is in server.out and client.out of the test's folder.
source "${BASH_SOURCE[0]%/*}/../../lib/lib.bash"

IA=lab # name of the IA in dat.conf; a client takes over its server's
REGISTRY=${REGISTRY:-stock} PROVIDER=${PROVIDER:-stock}
VERBS=${VERBS:-$PROVIDER}
DRIVER=${DRIVER:-${SOFTRDMA_DEVICE%%[0-9]*}}
LIMIT=${LIMIT:-240}
: "${OUR_REGISTRY:=${BUILD:-$PWD/build/release}${SANITIZED:+/$SANITIZED}/udapl/registry/libdat2.so.2}"
: "${OUR_PROVIDER:=${BUILD:-$PWD/build/release}${SANITIZED:+/$SANITIZED}/udapl/libdaplcoherdma.so.2}"
plugins=${BUILD:-$PWD/build/release}/provider
: "${OUR_VERBS:=$plugins/libcoherdma:$plugins/libcoherdma-observers}"
[[ $REGISTRY$PROVIDER$VERBS =~ ^(stock|coherdma)+$ ]] || {
    echo "REGISTRY, PROVIDER and VERBS are stock or coherdma, not $REGISTRY, $PROVIDER, $VERBS" >&2
    exit 2
}
# Otherwise the loader takes the stock one without a message.
[[ $REGISTRY == stock || (-e $OUR_REGISTRY && ${OUR_REGISTRY##*/} == libdat2.so.2) ]] || {
    echo "no libdat2.so.2: $OUR_REGISTRY" >&2
    exit 2
}

# set_facts SIDE: NETDEV, ADDRESS and DEVICE of the driver's device on that side's host.
set_facts() {
    local enter=${1^^}_ON names
    names=("SOFTRDMA_${DRIVER^^}"_{NETDEV,ADDRESS,DEVICE})
    enter=${!enter:-}
    if [[ $enter ]]; then
        { read -r NETDEV && read -r ADDRESS && read -r DEVICE; } < <($enter printenv "${names[@]}")
    else
        # shellcheck disable=SC2034 # DEVICE: for conform/run
        NETDEV=${!names[0]} ADDRESS=${!names[1]} DEVICE=${!names[2]}
    fi
}

# print_dat_conf: an entry of the IA for consumers that ask for thread safety, and one for others: a registry
# finds no IA without an entry of the right kind.
print_dat_conf() {
    local library=libdaplofa.so.2 safety
    [[ $PROVIDER == stock ]] || library=$OUR_PROVIDER
    for safety in nonthreadsafe threadsafe; do
        echo "$IA u2.0 $safety default $library dapl.2.0 \"$NETDEV 0\" \"\""
    done
}

# prepare FOLDER: makes both sides' dat.conf. ADDRESS is the server's. The ports of the programs are in TCP's
# ephemeral range, so they are reserved: on siw, a port that a client had a minute ago is still in use.
prepare() {
    local side
    ${SERVER_ON:-} sysctl -qw net.ipv4.ip_local_reserved_ports=45248-45999
    out=$1 server=''
    for side in client server; do
        set_facts $side
        print_dat_conf >"$out/$side.conf"
        # shellcheck disable=SC2034 # for files that source this
        [[ $side == server ]] || CLIENT_ADDRESS=$ADDRESS
    done
}

# set_command SIDE COMMAND...: sets words to the command with the parts, on the side's host. Its output is
# line-buffered: that of a killed program is complete.
set_command() {
    local side=$1 enter=${1^^}_ON
    shift
    # shellcheck disable=SC2206 # words, or none
    words=(timeout -k 2 "$LIMIT" ${!enter:-} env -u RDMAV_DRIVERS -u LD_LIBRARY_PATH "DAT_OVERRIDE=$out/$side.conf")
    [[ $REGISTRY == stock ]] || words+=("LD_LIBRARY_PATH=${OUR_REGISTRY%/*}")
    [[ $VERBS == stock ]] || words+=("RDMAV_DRIVERS=$OUR_VERBS" VERBS_LOG_LEVEL=3 "VERBS_LOG_FILE=$out/$side.verbs")
    # ASan otherwise refuses stdbuf's library, which is loaded before its own.
    [[ ! ${SANITIZED:-} ]] || words+=(ASAN_OPTIONS=verify_asan_link_order=0)
    # shellcheck disable=SC2206 # words, or none
    words+=(stdbuf -oL ${UNDER:-} "$@")
}
run_side() { # SIDE COMMAND...: its output is in the side's file
    local words
    set_command "$@"
    "${words[@]}" >"$out/$1.out" 2>&1 3>&-
}

# check_status SIDE STATUS: of a program. 0 proves nothing: most programs end so after a failure, too.
check_status() {
    case $2 in
    0) ;;
    124 | 137) complain "$1: not done within $LIMIT s" ;;
    1[3-5][0-9]) complain "$1: died of signal $(($2 - 128))" ;;
    *) complain "$1: exit status $2" ;;
    esac
}

# run_alone COMMAND...: a program without a server; it is the client.
run_alone() {
    local status=0
    : >"$out/server.out"
    run_side client "$@" || status=$?
    check_status client $status
}

# start_server READY COMMAND...: until the command READY succeeds.
start_server() {
    local ready=$1 until=$((SECONDS + LIMIT)) words
    shift
    set_command server "$@"
    "${words[@]}" >"$out/server.out" 2>&1 3>&- & # without a shell around it
    server=$!
    until $ready; do
        pause 0.05
        if ! kill -0 "$server" 2>/dev/null || ((SECONDS >= until)); then
            complain 'server: not ready'
            return 1
        fi
    done
}
is_listening_dtest() { # dtest, dtestx and dtestcm by TCP
    if [[ ${SERVER_ON:-} ]]; then
        $SERVER_ON ss -Hltn 'sport = :15828' | grep -q .
    else
        is_listening_tcp 15828
    fi
}

# run_server_and_client READY SERVER CLIENT: commands of one program as server and as client. The server ends after
# its client: that is waited for, or briefly if the client failed.
run_server_and_client() {
    local status=0 until
    # shellcheck disable=SC2086 # words
    if start_server "$1" $2; then
        run_side client $3 || status=$?
        check_status client $status
        until=$((SECONDS + (status ? 2 : LIMIT / 2)))
        while kill -0 "$server" 2>/dev/null && ((SECONDS < until)); do pause 0.05; done
        ! kill -0 "$server" 2>/dev/null || complain 'server: stays when its client has gone'
    else
        : >"$out/client.out"
    fi
    end_server
}

# end_server: end the server, if it runs. A bad status before that is a complaint.
end_server() {
    local status=0
    [[ $server ]] || return 0
    if kill "$server" 2>/dev/null; then
        wait "$server" || true # its status is that of the signal
    else
        wait "$server" || status=$?
        check_status server $status
    fi
    server=''
}
