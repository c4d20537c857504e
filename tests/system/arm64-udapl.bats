#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# uDAPL and emulation on arm64: all of ours, built for it, in a guest with rxe and siw, and Debian's
# programs of uDAPL for that CPU. The guest is emulated, so they are given little to do. It has no
# bats: a script runs there, and its output is looked at here.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/situations.bash"

# runs: a line for each run of the programs of situations/: MODE KIND COMMAND. KIND is right, or
# what has to be found.
runs() {
    local name each kind sync
    for name in "${!without[@]}"; do
        for each in $(builds . "$name"); do
            echo "off right $each"
            echo "stale right $each"
            sync=0
            for kind in ${without[$name]}; do
                sync=$((sync + 1))
                echo "stale $kind $each --forget $sync"
            done
        done
    done | sed '/^off .*atomic_write/s/$/ --count 2000/; /^stale .*atomic_write/s/$/ --count 200/'
}

setup_file() {
    local gnu=/usr/aarch64-linux-gnu/lib
    source "$BATS_TEST_DIRNAME/arm64.bash"
    build_for_arm64 dat dat2 dapl_provider coherdma_provider coherdma_emulation datinfo datping mailbox \
        situations
    cd "$BATS_FILE_TMPDIR" || return
    cp "$built"/{udapl/registry/libdat2.so.2,udapl/libdaplcoherdma.so.2,ibverbs-glue/libcoherdma.so.1} .
    cp "$built"/{provider/libcoherdma-rdmav34.so,provider/libcoherdma-emulation.so} .
    cp "$built"/{tools/datinfo/datinfo,tools/datping/datping,examples/mailbox} .
    cp "$built"/udapl/registry/libdat.so.1 "$built"/tests/system/situations/situation_* .
    runs >situations
    cp "$ARM64_ROOT"/usr/{bin/dtest,bin/dtestx,bin/dapltest,lib/aarch64-linux-gnu/libfmt.so.9} .
    cp "$gnu"/libstdc++.so.6 "$gnu"/libgcc_s.so.1 .
    cp "$BATS_TEST_DIRNAME/arm64-udapl.sh" .
    timeout 1200 "$root/scripts/softrdma" run -q --arch arm64 --driver both -- sh arm64-udapl.sh >said 2>&1
}

# section WORD...: what was said below these; it is on the log if the test fails.
section() { sed -n "/^== $*$/,/^== /p" "$BATS_FILE_TMPDIR/said" | tee "$BATS_TEST_TMPDIR/part"; }
# part DRIVER PROGRAM: what these said, and it is nothing bad.
part() {
    section "$@"
    ! grep -iE '\berr|error|fail|warning|mismatch|cannot|could ?n.t|invalid|unexpected' "$BATS_TEST_TMPDIR/part"
}
times() { [[ $(grep -cE -- "$2" "$BATS_TEST_TMPDIR/part") == "$1" ]]; }

@test "arm64: the IAs, served by our plugin" {
    part both datinfo
    times 1 '^rxe0 +rxe0 +RoCE/IB .* libdaplcoherdma.so.2$'
    times 1 '^siw0 +siw0 +iWARP .* libdaplcoherdma.so.2$'
    part both plugin
    times 1 'rxe0 is served by coherdma'
    times 1 'siw0 is served by coherdma'
}

# the four programs of each driver
dtest() {
    part "$1" dtest
    times 2 'DAPL Test Complete. PASSED'
}
dapltest() {
    part "$1" dapltest
    times 1 '^Total Send +: +2.45 MB'
    times 1 '^Total RDMA Write +: +1.63 MB'
    times 2 'End of Work -- Client Exiting'
}
datping() {
    part "$1" datping
    times 1 'datping: 80 rounds in .* all data right'
}

@test "arm64: dtest on rxe" { dtest rxe; }
@test "arm64: dtest on siw" { dtest siw; }
@test "arm64: dtestx on rxe" {
    part rxe dtestx
    times 2 'IB extension test - immed/atomic test PASSED'
}
@test "arm64: dapltest on rxe, with verification" { dapltest rxe; }
@test "arm64: dapltest on siw, with verification" { dapltest siw; }
@test "arm64: datping in all modes on rxe" { datping rxe; }
@test "arm64: datping in all modes on siw" { datping siw; }

# With a played device: of a program that syncs nothing is said, and what it leaves out is.
forgotten() {
    part "$1" 'mailbox nothing'
    times 1 '^all letters have arrived$'
    times 1 '^coherdma: emulation: nothing was found$'
    section "$1" mailbox read
    times 3 "^round .: the peer got .*, not 'answer .'$"
    times 3 '  missing: sync_rdma_read before the Read$'
    section "$1" mailbox write
    times 3 "^round .: the owner got .*, not 'question .'$"
    times 1 '  missing: sync_rdma_write after the Write$'
}
@test "arm64: a forgotten sync is found on rxe" { forgotten rxe; }
@test "arm64: a forgotten sync is found on siw" { forgotten siw; }

right() { # DRIVER MODE: and nothing is found
    local mode command seen=0
    while read -r mode _ command; do
        section "$1 $mode $command"
        times 1 '^status 0$'
        times 0 '"coherdma":"finding"'
        [[ $mode == off ]] || times 2 '"coherdma":"summary"'
        seen=$((seen + 1))
    done < <(grep "^$2 right " "$BATS_FILE_TMPDIR/situations")
    ((seen == 2 * ${#without[@]} - 2)) # all but two are there for both versions of uDAPL
}
wrong() { # DRIVER
    local mode kind command
    while read -r mode kind command; do
        section "$1 $mode $command"
        times 1 '^status 1$'
        times 2 '"coherdma":"summary"'
        [[ $kind == - ]] || grep -F "\"kind\":\"$kind\"" "$BATS_TEST_TMPDIR/part" >/dev/null
    done < <(grep -v '^[a-z]* right ' "$BATS_FILE_TMPDIR/situations")
}
@test "arm64: situations are right on rxe" { right rxe off; }
@test "arm64: situations are right on siw" { right siw off; }
@test "arm64: situations are right on rxe that is played, and nothing is found" { right rxe stale; }
@test "arm64: situations are right on siw that is played, and nothing is found" { right siw stale; }
@test "arm64: situations without one of their syncs are wrong on rxe that is played, and found" { wrong rxe; }
@test "arm64: situations without one of their syncs are wrong on siw that is played, and found" { wrong siw; }

# Debian 12's kernel has no atomic writes of its own.
written() {
    section "$1" off situation_atomic_write_dat2 --count 2000
    times 1 '^atomic writes: inline write$'
    times 1 '^[0-9]{2,} values seen of 2000$'
}
@test "arm64: atomic writes are whole on rxe" { written rxe; }
@test "arm64: atomic writes are whole on siw" { written siw; }
