#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# uDAPL and emulation on arm64: our libraries and programs, and Debian's uDAPL programs, in a guest with rxe and siw.
# The guest is emulated, so they do little. It has no bats: udapl.sh runs there, and its output is checked here.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/../udapl/sync_programs.bash"

# list_sync_runs: a line for each run of a sync program: MODE KIND COMMAND. KIND is right, or the kind of the finding.
list_sync_runs() {
    local name program kind sync builds
    for name in "${!findings_without_sync[@]}"; do
        find_builds . "$name"
        for program in "${builds[@]}"; do
            echo "off right $program"
            echo "stale right $program"
            sync=0
            for kind in ${findings_without_sync[$name]}; do
                sync=$((sync + 1))
                echo "stale $kind $program --skip-sync $sync"
            done
        done
    done | sed '/^off .*atomic_write/s/$/ --count 2000/; /^stale .*atomic_write/s/$/ --count 200/'
}

setup_file() {
    local gnu=/usr/aarch64-linux-gnu/lib
    source "$BATS_TEST_DIRNAME/arm64.bash"
    build_for_arm64 dat dat2 dapl_provider coherdma_provider coherdma_emulation coherdma-tool datinfo datping mailbox \
        sync_programs
    cd "$BATS_FILE_TMPDIR" || return
    cp "$built"/{udapl/registry/libdat2.so.2,udapl/libdaplcoherdma.so.2,ibverbs-glue/libcoherdma.so.1} .
    cp "$built"/provider/libcoherdma-{rdmav34,observers-rdmav34,interposer,emulation}.so .
    cp "$built"/{tools/coherdma,tools/datinfo/datinfo,tools/datping/datping,examples/mailbox} .
    cp "$built"/udapl/registry/libdat.so.1 "$built"/tests/system/udapl/sync_programs/sync_*_dat[12] .
    list_sync_runs >sync_runs
    cp "$ARM64_ROOT"/usr/{bin/dtest,bin/dtestx,bin/dapltest,lib/aarch64-linux-gnu/libfmt.so.9} .
    cp "$gnu"/libstdc++.so.6 "$gnu"/libgcc_s.so.1 .
    # The emulation needs libdw, which the guest's Debian does not have.
    cp "$ARM64_ROOT"/usr/lib/aarch64-linux-gnu/lib{dw,elf}.so.1 .
    cp "$ARM64_ROOT"/lib/aarch64-linux-gnu/lib{bz2.so.1.0,lzma.so.5,z.so.1} .
    cp "$BATS_TEST_DIRNAME/udapl.sh" "$BATS_TEST_DIRNAME/../lib"/{guest.sh,is_listening} .
    "$root/scripts/softrdma" run -q --arch arm64 --driver both -- sh udapl.sh >guest_output 2>&1
}

# section WORD...: prints the part of the output below that heading.
section() { sed -n "/^== $*$/,/^== /p" "$BATS_FILE_TMPDIR/guest_output" | tee "$BATS_TEST_TMPDIR/part"; }
# expect_section DRIVER PROGRAM: there is no error in it.
expect_section() {
    section "$@"
    ! grep -iE '\berr|error|fail|warning|mismatch|cannot|could ?n.t|invalid|unexpected' "$BATS_TEST_TMPDIR/part"
}
expect_times() { [[ $(grep -cE -- "$2" "$BATS_TEST_TMPDIR/part") == "$1" ]]; } # COUNT PATTERN: lines of the section

@test "arm64: datinfo lists the IAs, served by our plugin" {
    expect_section both datinfo
    expect_times 1 '^rxe0 +rxe0 +RoCE/IB .* libdaplcoherdma.so.2$'
    expect_times 1 '^siw0 +siw0 +iWARP .* libdaplcoherdma.so.2$'
    expect_section both plugin
    expect_times 1 'rxe0 is served by coherdma'
    expect_times 1 'siw0 is served by coherdma'
}

expect_dtest() { # DRIVER
    expect_section "$1" dtest
    expect_times 2 'DAPL Test Complete. PASSED'
}
expect_dapltest() { # DRIVER
    expect_section "$1" dapltest
    expect_times 1 '^Total Send +: +2.45 MB'
    expect_times 1 '^Total RDMA Write +: +1.63 MB'
    expect_times 2 'End of Work -- Client Exiting'
}
expect_datping() { # DRIVER
    expect_section "$1" datping
    expect_times 1 'datping: 80 rounds in .* all data right'
}

@test "arm64: rxe: dtest passes" { expect_dtest rxe; }
@test "arm64: siw: dtest passes" { expect_dtest siw; }
@test "arm64: rxe: dtestx passes" {
    expect_section rxe dtestx
    expect_times 2 'IB extension test - immed/atomic test PASSED'
}
@test "arm64: rxe: dapltest verifies its data" { expect_dapltest rxe; }
@test "arm64: siw: dapltest verifies its data" { expect_dapltest siw; }
@test "arm64: rxe: datping verifies data in every mode" { expect_datping rxe; }
@test "arm64: siw: datping verifies data in every mode" { expect_datping siw; }

# The CPU moves the data of both devices, so nothing is stale, unless it is emulated.
expect_selftest() { # DRIVER
    section "$1" selftest
    expect_times 1 '^status 0$'
    expect_times 1 '^AGREES$'
    expect_times 1 '^none +0 +0 +0 +0$'
    expect_times 1 '^full +0 +0 +0 +0$'
    section "$1" selftest stale
    expect_times 1 '^status 0$'
    expect_times 1 '^AGREES$'
    expect_times 1 '^none +2048 +2048 +0 +0$'
    expect_times 1 '^full +0 +0 +0 +0$'
}
@test "arm64: rxe: selftest sees stale data where they are emulated" { expect_selftest rxe; }
@test "arm64: siw: selftest sees stale data where they are emulated" { expect_selftest siw; }

# expect_missing_syncs_found DRIVER: on an emulated device; a program that syncs has no finding.
expect_missing_syncs_found() {
    expect_section "$1" 'mailbox nothing'
    expect_times 1 '^all letters have arrived$'
    expect_times 1 '^coherdma: emulation: no findings$'
    section "$1" mailbox read
    expect_times 3 "^round .: the peer got .*, not 'answer .'$"
    expect_times 3 '  missing: sync before the Read$'
    section "$1" mailbox write
    expect_times 3 "^round .: the owner got .*, not 'question .'$"
    expect_times 1 '  missing: sync after the Write$'
}
@test "arm64: rxe: emulation finds a missing sync" { expect_missing_syncs_found rxe; }
@test "arm64: siw: emulation finds a missing sync" { expect_missing_syncs_found siw; }

expect_right() { # DRIVER MODE: without a finding
    local mode command seen=0
    while read -r mode _ command; do
        section "$1 $mode $command"
        expect_times 1 '^status 0$'
        expect_times 0 '"coherdma":"finding"'
        [[ $mode == off ]] || expect_times 2 '"coherdma":"summary"'
        seen=$((seen + 1))
    done < <(grep "^$2 right " "$BATS_FILE_TMPDIR/sync_runs")
    ((seen == 2 * ${#findings_without_sync[@]} - 2)) # two programs exist for one version of uDAPL only
}
expect_findings_without_syncs() { # DRIVER
    local mode kind command
    while read -r mode kind command; do
        section "$1 $mode $command"
        expect_times 1 '^status 1$'
        expect_times 2 '"coherdma":"summary"'
        [[ $kind == - ]] || grep -F "\"kind\":\"$kind\"" "$BATS_TEST_TMPDIR/part" >/dev/null
    done < <(grep -v '^[a-z]* right ' "$BATS_FILE_TMPDIR/sync_runs")
}
@test "arm64: rxe: data of the sync programs are right" { expect_right rxe off; }
@test "arm64: siw: data of the sync programs are right" { expect_right siw off; }
@test "arm64: rxe: data of the sync programs are right without a finding, emulated" { expect_right rxe stale; }
@test "arm64: siw: data of the sync programs are right without a finding, emulated" { expect_right siw stale; }
@test "arm64: rxe: without any one sync data are wrong with a finding, emulated" { expect_findings_without_syncs rxe; }
@test "arm64: siw: without any one sync data are wrong with a finding, emulated" { expect_findings_without_syncs siw; }

# Debian 12's kernel has no native atomic writes.
expect_atomic_writes() { # DRIVER
    section "$1" off sync_atomic_write_dat2 --count 2000
    expect_times 1 '^atomic writes: inline write$'
    expect_times 1 '^[0-9]{2,} values seen of 2000$'
}
@test "arm64: rxe: atomic writes are whole" { expect_atomic_writes rxe; }
@test "arm64: siw: atomic writes are whole" { expect_atomic_writes siw; }
