# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# shellcheck shell=bash
#
# What the tests share that run where soft devices exist (in `softrdma run`).

# awaited SECONDS COMMAND...: wait until the command succeeds, with a limit.
awaited() {
    local until=$((SECONDS + $1))
    shift
    until "$@"; do
        ((SECONDS < until)) || {
            echo "not within the limit: $*" >&2
            return 1
        }
    done
}

# listener PORT: the process that listens on it with rdma_cm.
listener() {
    rdma resource show cm_id 2>/dev/null |
        sed -nE "s/.* state LISTEN .* pid ([0-9]+) .* src-addr [^ ]+:$1 .*/\1/p" | head -n 1
}
export -f listener # for what pair runs

# listens PORT: somebody does. The kernel says so a moment before it is true (in siw there is no
# socket yet), so he has to be out of that call, too: asleep, waiting for us.
listens() {
    local pid state=''
    pid=$(listener "$1")
    [[ $pid ]] && read -r _ _ state _ <"/proc/$pid/stat" && [[ $state == S ]]
}

# waits_for_cm PORT: the same on the server's host, if there are two ($SERVER_ON: `on 2`).
waits_for_cm() { ${SERVER_ON:-} bash -c "$(declare -f listener listens)"'; listens "$1"' - "$1"; }

# of DRIVER FACT: the device of a driver, e.g. of siw ADDRESS
of() {
    local name=SOFTRDMA_${1^^}_$2
    echo "${!name}"
}

# tripped SIDE STATUS: it was rping, and all was done when one of its threads closed what another came to
# wait at; then it ends with 255 (rdma-core 44; later ones may wait there for ever).
tripped() {
    local out=$BATS_TEST_TMPDIR/$1.out
    [[ $2 == 255 ]] && grep -qaF 'rdma_get_cm_event: Bad file descriptor' "$out" && ! grep -qaE 'rping (client|server) failed' "$out"
}

# pair SERVER CLIENT: run two shell commands as server and client, the client once the port
# ($PORT, by rdma_cm; $AWAIT overrides the condition) is listened on. Both have to succeed, in a
# minute or $LIMIT seconds.
# What they print is in server.out and client.out of the test's folder, and on the log if not.
pair() {
    local server status=0 ended=0
    timeout "${LIMIT:-60}" bash -c "$1" >"$BATS_TEST_TMPDIR/server.out" 2>&1 3>&- &
    server=$!
    awaited 20 ${AWAIT:-waits_for_cm "$PORT"} || status=1
    if ((status == 0)); then
        timeout "${LIMIT:-60}" bash -c "$2" >"$BATS_TEST_TMPDIR/client.out" 2>&1 3>&- || status=$?
        ! tripped client "$status" || status=0
    fi
    ((status == 0)) || kill "$server" 2>/dev/null || true
    wait "$server" || ended=$?
    ((ended == 0)) || tripped server "$ended" || status=$ended
    ((status == 0)) || tail -n 40 "$BATS_TEST_TMPDIR"/*.out
    return "$status"
}

said() { # SIDE PATTERN: a side printed it
    grep -qE "$2" "$BATS_TEST_TMPDIR/$1.out" || {
        echo "the $1 did not say '$2':"
        tail -n 20 "$BATS_TEST_TMPDIR/$1.out"
        return 1
    }
}

# carried BUILD SERVER CLIENT [OPTION...]: our program moves data of all sizes from the client's
# address to the server's and verifies every byte; SERVER and CLIENT are commands that enter the
# host (or env). The address is $ADDRESS.
carried() {
    local program=$BUILD/$1/tests/carry server=$2 client=$3 status=0
    shift 3
    $server "$program" server "$ADDRESS" "$@" >"$BATS_TEST_TMPDIR/server.out" 2>&1 3>&- &
    $client timeout 240 "$program" client "$ADDRESS" "$@" || status=$?
    wait $! || status=$?
    ((status == 0)) || sed 's/^/server: /' "$BATS_TEST_TMPDIR/server.out"
    ((status == 0)) && said server 'transfers, [0-9]+ bytes verified'
}

# pinged DRIVER: rping's client has verified a hundred rounds.
pinged() {
    local address
    address=$(of "$1" ADDRESS)
    PORT=7174 pair "rping -s -a $address -C 100 -V" "rping -c -a $address -C 100 -V -v"
    [[ $(grep -c '^ping data' "$BATS_TEST_TMPDIR/client.out") == 100 ]]
    run ! grep -iE 'error|mismatch|invalid' "$BATS_TEST_TMPDIR"/*.out
}
# measured DRIVER PROGRAM OPTIONS: a perftest program, connected by rdma_cm, prints a row of numbers.
measured() {
    local address
    address=$(of "$1" ADDRESS)
    PORT=18515 perftested "$2 -R -d $(of "$1" DEVICE) $3" "$address"
}
# perftested SERVER ADDRESS [CLIENT]: the same, however it connects. The client is CLIENT, or the
# server with an address. On a busy machine perftest has faults of its own, so it may try again: it
# compares the processor's clock with the system's, and if they seem too far apart prints inf or
# fails, and the other side waits for ever; its client makes a second connection before its server
# listens for one; and ends with a bad address if that is refused. With MAY_HANG, it may also try
# again if the client was killed for its time before it had printed anything.
perftested() {
    local status own='Correlation coefficient|Failed to connect RDMA CM events|ERRNO: Operation not supported'
    for _ in {1..12}; do
        status=0
        pair "$1" "${3:-$1 $2}" || status=$?
        [[ ${MAY_HANG:-} && ! -s $BATS_TEST_TMPDIR/client.out ]] ||
            grep -qE "$own" "$BATS_TEST_TMPDIR"/{client,server}.out || break
    done
    ((status == 0)) && said client '^ *[0-9]+ +[0-9]+ +[0-9.]+'
}

# ponged OPTION [PROGRAM]: a pingpong program of libibverbs on rxe, with verification unless it is
# another than ibv_rc_pingpong.
ponged() {
    local options program=${2:-ibv_rc_pingpong}
    options="$1 -n 1000 -d $(of rxe DEVICE) -g $(of rxe GID_INDEX)"
    [[ $program != ibv_rc_pingpong ]] || options+=' -c'
    AWAIT='accepts 18515' pair "$program $options" "$program $options $(of rxe ADDRESS)"
    said client '^1000 iters'
    said server '^1000 iters'
}
accepts() { ss -Hltn "sport = :$1" | grep -q .; } # PORT: somebody listens on it with TCP

# Drivers whose devices our plugin serves.
OURS='rxe siw'

# by DRIVER FUNCTION [ARGUMENT...]: the function with the driver and the arguments. Where its devices
# are ours to serve, the server and the client had theirs from us; else from the stock provider.
by() {
    local driver=$1 function=$2 times
    shift 2
    if [[ " $OURS " != *" $driver "* ]]; then
        "$function" "$driver" "$@"
        return
    fi
    export RDMAV_DRIVERS=$BUILD/release/provider/libcoherdma
    export VERBS_LOG_LEVEL=3 VERBS_LOG_FILE=$BATS_TEST_TMPDIR/verbs.log
    "$function" "$driver" "$@"
    times=$(grep -c "$(of "$driver" DEVICE) is served by coherdma" "$VERBS_LOG_FILE" || true)
    ((times >= 2)) || {
        echo "served $times times, not 2"
        return 1
    }
}

# in_suite --suite SUITE [OPTION...] -- COMMAND...: in a guest of another Debian release. A kernel that
# patches itself while it boots (6.12) can die of that under emulation, on two processors.
in_suite() {
    local said=$BATS_TEST_TMPDIR/guest.out status
    for _ in 1 2 3; do
        status=0
        "$BATS_TEST_DIRNAME/../../scripts/softrdma" run -q "$@" >"$said" 2>&1 || status=$?
        grep -q 'Oops: int3' "$said" || break
    done
    cat "$said"
    return "$status"
}
