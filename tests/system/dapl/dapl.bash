# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# shellcheck shell=bash
#
# Runs the programs that strangers wrote for uDAPL, a server and a client, or one alone, with the
# parts that the environment names:
#
#   REGISTRY   libdat2.so.2: stock or ours
#   PROVIDER   what serves the IA: stock (OFED's over rdma_cm) or ours
#   VERBS      libibverbs' driver of the device: stock or ours; if not said, as PROVIDER
#   DRIVER     rxe or siw; if not said, that of the device that is there
#   SERVER_ON, CLIENT_ON   command that enters the side's host, if there are two: `on 2`
#   OUR_REGISTRY, OUR_PROVIDER, OUR_VERBS   where ours are, if not where they are built
#   SANITIZED  build folder with sanitizers, whose libdat2 and provider ours are then
#   LIMIT      seconds that a program may take
#
# What it printed is in server.out and client.out of the test's folder.
source "${BASH_SOURCE[0]%/*}/../lib.bash"

IA=lab # name of the IA in dat.conf; a client takes over its server's
REGISTRY=${REGISTRY:-stock} PROVIDER=${PROVIDER:-stock}
VERBS=${VERBS:-$PROVIDER}
DRIVER=${DRIVER:-${SOFTRDMA_DEVICE%%[0-9]*}}
LIMIT=${LIMIT:-60}
: "${OUR_REGISTRY:=${BUILD:-$PWD/build}/${SANITIZED:-release}/udapl/registry/libdat2.so.2}"
: "${OUR_PROVIDER:=${BUILD:-$PWD/build}/${SANITIZED:-release}/udapl/libdaplcoherdma.so.2}"
: "${OUR_VERBS:=${BUILD:-$PWD/build}/release/provider/libcoherdma}"
[[ $REGISTRY$PROVIDER$VERBS =~ ^(stock|ours)+$ ]] || {
    echo "REGISTRY, PROVIDER and VERBS are stock or ours, not $REGISTRY, $PROVIDER, $VERBS" >&2
    exit 2
}
# The loader would take the stock one instead, and say nothing.
[[ $REGISTRY == stock || (-e $OUR_REGISTRY && ${OUR_REGISTRY##*/} == libdat2.so.2) ]] || {
    echo "no libdat2.so.2: $OUR_REGISTRY" >&2
    exit 2
}

# learn SIDE: NETDEV, ADDRESS and DEVICE are those of the driver, as that side's host sees them.
learn() {
    local name enter=${1^^}_ON
    enter=${!enter:-}
    for name in NETDEV ADDRESS DEVICE; do
        local -n fact=SOFTRDMA_${DRIVER^^}_$name
        if [[ $enter ]]; then
            printf -v $name %s "$($enter printenv "SOFTRDMA_${DRIVER^^}_$name")"
        else
            printf -v $name %s "$fact"
        fi
    done
}

# dat_conf: the IA is there for those who ask for thread safety and for those who do not: a registry
# that finds no record of the right kind knows no such IA.
dat_conf() {
    local library=libdaplofa.so.2 safety
    [[ $PROVIDER == stock ]] || library=$OUR_PROVIDER
    for safety in nonthreadsafe threadsafe; do
        echo "$IA u2.0 $safety default $library dapl.2.0 \"$NETDEV 0\" \"\""
    done
}

# prepare FOLDER: both sides' dat.conf, and nobody runs. ADDRESS is the server's. The ports that the
# programs listen on are among those that TCP gives to clients, so that it is told not to: on siw, one
# that an earlier client had a minute ago is still taken.
prepare() {
    local side
    ${SERVER_ON:-} sysctl -qw net.ipv4.ip_local_reserved_ports=45248-45999
    out=$1 server=''
    for side in client server; do
        learn $side
        dat_conf >"$out/$side.conf"
        # shellcheck disable=SC2034 # for those who source this
        [[ $side == server ]] || CLIENT_ADDRESS=$ADDRESS
    done
}

# phrase SIDE COMMAND...: sets words to the command with the parts, on the side's host. Lines come out
# whole, so that one that is killed has said all it had to say.
phrase() {
    local side=$1 enter=${1^^}_ON
    shift
    # shellcheck disable=SC2206 # words, or none
    words=(timeout -k 2 "$LIMIT" ${!enter:-} env -u RDMAV_DRIVERS -u LD_LIBRARY_PATH "DAT_OVERRIDE=$out/$side.conf")
    [[ $REGISTRY == stock ]] || words+=("LD_LIBRARY_PATH=${OUR_REGISTRY%/*}")
    [[ $VERBS == stock ]] || words+=("RDMAV_DRIVERS=$OUR_VERBS" VERBS_LOG_LEVEL=3 "VERBS_LOG_FILE=$out/$side.verbs")
    # Else ASan minds that stdbuf's library is loaded before its own.
    [[ ! ${SANITIZED:-} ]] || words+=(ASAN_OPTIONS=verify_asan_link_order=0)
    # shellcheck disable=SC2206 # words, or none
    words+=(stdbuf -oL ${UNDER:-} "$@")
}
as() { # SIDE COMMAND...: its status; what it prints is in the side's file
    local words
    phrase "$@"
    "${words[@]}" >"$out/$1.out" 2>&1 3>&-
}

# outcome SIDE STATUS: what the end of a program tells. That it is 0 tells nothing: most end so
# after a failure, too.
outcome() {
    case $2 in
    0) ;;
    124 | 137) complain "$1: not done within $LIMIT s" ;;
    1[3-5][0-9]) complain "$1: died of signal $(($2 - 128))" ;;
    *) complain "$1: exit status $2" ;;
    esac
}

# alone COMMAND...: a program without a server. It is the client.
alone() {
    local status=0
    : >"$out/server.out"
    as client "$@" || status=$?
    outcome client $status
}

# serve READY COMMAND...: start the server; true once it is ready, which the command READY tells.
serve() {
    local ready=$1 until=$((SECONDS + LIMIT)) words
    shift
    phrase server "$@"
    "${words[@]}" >"$out/server.out" 2>&1 3>&- & # itself, no shell: the process to be killed
    server=$!
    until $ready; do
        if ! kill -0 "$server" 2>/dev/null || ((SECONDS >= until)); then
            complain 'server: never ready'
            return 1
        fi
    done
}
waits_for_tcp() { ${SERVER_ON:-} ss -Hltn 'sport = :15828' | grep -q .; } # as dtest's kind do

# converse READY SERVER CLIENT: commands of one program as server and as client; the server has
# half a minute to end after its client, though 2 s if that failed.
converse() {
    local status=0 until
    # shellcheck disable=SC2086 # words
    if serve "$1" $2; then
        as client $3 || status=$?
        outcome client $status
        # A message that ends a connection may be lost; the kernel sends it again after 4 s.
        until=$((SECONDS + (status ? 2 : 30)))
        while kill -0 "$server" 2>/dev/null && ((SECONDS < until)); do sleep 0.05; done
        ! kill -0 "$server" 2>/dev/null || complain 'server: stays when its client has gone'
    else
        : >"$out/client.out"
    fi
    dismiss
}

# dismiss: end the server, if there is one. What it did wrong before is a complaint.
dismiss() {
    local status=0
    [[ $server ]] || return 0
    if kill "$server" 2>/dev/null; then
        wait "$server" || true
    else
        wait "$server" || status=$?
        outcome server $status
    fi
    server=''
}
