#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# What udapl.bats runs in the guest, in the folder of the programs and libraries.
programs=$PWD
export LD_LIBRARY_PATH="$programs" PATH="$programs:$PATH"
export RDMAV_DRIVERS="$programs/libcoherdma:$programs/libcoherdma-observers" VERBS_LOG_LEVEL=3 VERBS_LOG_FILE=/run/verbs.log
# shellcheck disable=SC3045 # the guest's shell has it
ulimit -l unlimited

begin() { printf '== %s\n' "$*"; }
# shellcheck source=tests/system/lib/guest.sh
. ./guest.sh
# wait_listen_tcp PORT
wait_listen_tcp() {
    until ss -Hltn "sport = :$1" | grep -q .; do sleep 0.5; done
}

# run_sync_programs DRIVER: each line of sync_runs; prints its output, its status and its findings.
run_sync_programs() {
    logs=/run/$1.findings
    while read -r mode _ command; do
        begin "$1 $mode $command"
        mkdir "$logs"
        status=0
        # shellcheck disable=SC2086 # words
        COHERDMA_EMULATE=$mode COHERDMA_EMULATE_LOG=$logs/%p.json $command "$1"0 >"$logs/output" 2>&1 </dev/null || status=$?
        cat "$logs/output"
        echo "status $status"
        if [ "$mode" != off ]; then cat "$logs"/*.json; fi
        rm -r "$logs"
    done <sync_runs
}

begin both datinfo
datinfo
for driver in rxe siw; do
    ia=${driver}0
    case $driver in
    rxe) address=$SOFTRDMA_RXE_ADDRESS ;;
    siw) address=$SOFTRDMA_SIW_ADDRESS ;;
    esac

    begin $driver dtest
    dtest -P $ia -B 20 -b 65536 >/run/server 2>&1 &
    wait_listen_tcp 15828
    dtest -P $ia -B 20 -b 65536 -h "$address"
    wait
    cat /run/server

    if [ $driver = rxe ]; then
        begin rxe dtestx
        dtestx -P $ia -s >/run/server 2>&1 &
        wait_listen_tcp 15828
        dtestx -P $ia -h "$address"
        wait
        cat /run/server
    fi

    begin $driver dapltest
    dapltest -T S -D $ia >/run/server 2>&1 &
    wait_listen 62000
    dapltest -T T -s "$address" -D $ia -i 100 -t 1 -w 4 -V client SR 1024 2 server SR 1024 2 client RW 4096 server RR 4096
    dapltest -T Q -s "$address" -D $ia
    wait

    begin $driver datping
    datping -s --once -I $ia >/run/server 2>&1 &
    wait_listen 7175
    datping -I $ia "$address" -c 20 -m all
    wait

    # Two rounds of 1024 lines.
    begin $driver selftest
    coherdma selftest --rounds 2 $ia
    echo "status $?"
    begin $driver selftest stale
    COHERDMA_EMULATE=stale COHERDMA_EMULATE_OPTIONS=nostacks coherdma selftest --rounds 2 $ia 2>/dev/null
    echo "status $?"

    for skipped in nothing read write; do
        begin $driver mailbox $skipped
        case $skipped in
        nothing) set -- ;;
        *) set -- --skip-sync $skipped ;;
        esac
        COHERDMA_EMULATE=stale mailbox "$@" "$address"
    done
done
run_sync_programs rxe >/run/rxe 2>&1 &
run_sync_programs siw >/run/siw 2>&1
wait
cat /run/rxe /run/siw
begin both plugin
sort -u /run/verbs.log
begin end
