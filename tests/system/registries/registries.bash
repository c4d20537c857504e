# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# shellcheck shell=bash
#
# Runs programs of the registries, which `install` has installed, as server and client. The environment names what
# they run with:
#
#   VERBS      libibverbs' driver of the device: stock or coherdma
#   SERVER_ON  command that enters the server's host, if there are two: `on 2`
#
# What they printed is in server.out and client.out of the test's folder.
source "${BASH_SOURCE[0]%/*}/../lib/lib.bash"

VERBS=${VERBS:-stock} SERVER_ON=${SERVER_ON:-}
: "${BUILD:=$PWD/build/release}"
folder=$BATS_TEST_DIRNAME
export examples=$folder/../../../examples
LIMIT=${LIMIT:-120}

# require_environment: ENVIRONMENT is Python's virtual environment, and SITE has its packages. Skips without it.
require_environment() {
    ENVIRONMENT=$("$folder/install" --print python)
    [[ -e $ENVIRONMENT/installed ]] || skip 'the packages are not installed: see the log of registries.install.python'
    export SITE PYTHON=$ENVIRONMENT/bin/python
    SITE=$(echo "$ENVIRONMENT"/lib/python3*/site-packages)
}

# choose_verbs: the driver by the variables of VERBS.
choose_verbs() {
    unset RDMAV_DRIVERS
    # shellcheck disable=SC2086 # words
    $SERVER_ON rm -f /run/verbs.log
    rm -f /run/verbs.log
    export VERBS_LOG_LEVEL=3 VERBS_LOG_FILE=/run/verbs.log
    [[ $VERBS == stock ]] || export RDMAV_DRIVERS=$BUILD/provider/libcoherdma
}

# expect_driver: each host's device was served by the driver that VERBS names.
expect_driver() {
    local enter
    for enter in '' "$SERVER_ON"; do
        # shellcheck disable=SC2086 # words
        if [[ $VERBS == stock ]]; then
            run ! $enter grep -s 'is served by coherdma' /run/verbs.log
        else
            $enter grep 'is served by coherdma' /run/verbs.log
        fi
    done
}

# has_server PORT: a process on the server's host listens on the TCP port.
has_server() {
    local port
    printf -v port ':%04X [0-9A-F]*:0000 0A' "$1"
    # shellcheck disable=SC2086 # words
    $SERVER_ON cat /proc/net/tcp /proc/net/tcp6 | grep -q "$port"
}

server_fact() { $SERVER_ON printenv "SOFTRDMA_$1"; } # FACT: of the server's host

# run_pair PORT SERVER CLIENT: runs two commands; in CLIENT, @ is the server's address.
run_pair() { READY="has_server $1" run_server_client "$SERVER_ON $2" "${3//@/$(server_fact ADDRESS)}"; }

# run_with_server PORT SERVER CLIENT: as run_pair, with a server that does not end by itself. It is ready when it listens
# on the TCP port, or the command $READY succeeds.
run_with_server() {
    local server status=0
    empty_output server
    # shellcheck disable=SC2086 # words
    $SERVER_ON $2 >"$BATS_TEST_TMPDIR/server.out" 2>&1 3>&- &
    server=$!
    # shellcheck disable=SC2086 # words
    wait_until is_ready_or_ended "$server" ${READY:-has_server "$1"}
    (run_limited "${3//@/$(server_fact ADDRESS)}") >"$BATS_TEST_TMPDIR/client.out" 2>&1 3>&- || status=$?
    kill "$server" 2>/dev/null || true # it may have ended by itself
    wait "$server" || true             # killed
    ((status == 0)) || tail -n 40 "$BATS_TEST_TMPDIR"/*.out
    return "$status"
}
