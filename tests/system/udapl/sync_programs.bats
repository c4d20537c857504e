#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Programs that sync memory as uDAPL's manual pages say. On a soft device, and on an emulated non-coherent one in
# each mode, their data are right and there is no finding. On the emulated device without one of their sync calls
# the data are wrong, and a finding names the cause.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"
source "$BATS_TEST_DIRNAME/sync_programs.bash"

setup() {
    driver=${DRIVER:-${SOFTRDMA_DEVICE%%[0-9]*}}
    release=${BUILD:-$BATS_TEST_DIRNAME/../../../build/release}
    folder=$release/tests/system/udapl/sync_programs
    # Where the registries look for the others; a program finds its registry by its own run path.
    export LD_LIBRARY_PATH=$release/udapl:$release/ibverbs-glue
    export COHERDMA_PROVIDER=$release/provider/libcoherdma-rdmav34.so
    export DAT_OVERRIDE=/dev/null
    unset COHERDMA_DAT_LIVE RDMAV_DRIVERS IBV_DRIVERS
    local device=SOFTRDMA_${driver^^}_DEVICE
    ia=${!device} runs=0
}

# A process costs as much as half a program's work in the guest: the functions below start the programs, and no others.

# emulate MODE COMMAND...: the logs of both processes begin with $log.
emulate() {
    log=$BATS_TEST_TMPDIR/$((++runs))
    COHERDMA_EMULATE=$1 COHERDMA_EMULATE_LOG=$log.%p.json "${@:2}"
}
# read_logs: of emulate, which have two summaries; sets findings.
read_logs() {
    local file line summaries=0
    local -a lines=()
    for file in "$log".*.json; do mapfile -t -O ${#lines[@]} lines <"$file"; done
    findings=''
    for line in "${lines[@]}"; do
        case $line in
        *'"coherdma":"summary"'*) summaries=$((summaries + 1)) ;;
        *'"coherdma":"finding"'*) findings+=$line$'\n' ;;
        esac
    done
    echo "$summaries summaries; findings: $findings"
    ((summaries == 2))
}

# run_program STATUS COMMAND...
run_program() {
    local seen=0 text
    "${@:2}" >"$BATS_TEST_TMPDIR/out" 2>&1 || seen=$?
    IFS= read -rd '' text <"$BATS_TEST_TMPDIR/out" || true # read fails at the end of the file
    echo "${*:2}: status $seen: $text"
    [[ $seen == "$1" ]]
}

expect_right() { # NAME [OPTION...]: on the soft device, which needs no sync
    local program builds
    find_builds "$folder" "$1"
    for program in "${builds[@]}"; do
        run_program 0 "$folder/$program" "${@:2}" "$ia"
    done
}
expect_right_emulated() { # MODES NAME [OPTION...]
    local program mode builds
    find_builds "$folder" "$2"
    for mode in $1; do
        for program in "${builds[@]}"; do
            run_program 0 emulate "$mode" "$folder/$program" "${@:3}" "$ia"
            read_logs
            [[ ! $findings ]]
        done
    done
}
expect_findings_without_syncs() { # MODES NAME
    local program mode number kind builds
    find_builds "$folder" "$2"
    for program in "${builds[@]}"; do
        for mode in $1; do
            number=0
            for kind in ${findings_without_sync[$2]}; do
                number=$((number + 1))
                run_program 1 emulate "$mode" "$folder/$program" --skip-sync $number "$ia"
                read_logs
                [[ $kind == - || $findings == *"\"kind\":\"$kind\""* ]]
            done
        done
        run_program 2 "$folder/$program" --skip-sync $((number + 1)) "$ia" # it has no more
    done
}

# run_versions SERVER CLIENT NAME: with these versions of uDAPL.
run_versions() {
    local server port status=0 stream text
    exec {stream}< <(exec "$folder/sync_$3_dat$1" server "$ia" 2>&1 3>&-)
    server=$!
    read -r port <&"$stream"
    "$folder/sync_$3_dat$2" client "$ia" "$port" || status=$?
    wait $server || status=$?
    IFS= read -rd '' text <&"$stream" || true # read fails at the end of the stream
    exec {stream}<&-
    echo "server on port $port: $text"
    return $status
}
expect_right_between_versions() { # NAME
    run_versions 1 2 "$1"
    run_versions 2 1 "$1"
    COHERDMA_EMULATE=stale COHERDMA_EMULATE_EXIT=7 run_versions 1 2 "$1"
    COHERDMA_EMULATE=poison COHERDMA_EMULATE_EXIT=7 run_versions 2 1 "$1"
}

all_modes='stale poison evict:1 evict:2 evict:3 passthrough'

@test "each program exists for both versions of uDAPL, except those of one version" {
    for name in "${!findings_without_sync[@]}"; do
        find_builds "$folder" "$name"
        case $name in
        ordered) [[ ${builds[*]} == sync_ordered_dat1 ]] ;;
        atomic_write) [[ ${builds[*]} == sync_atomic_write_dat2 ]] ;;
        *) ((${#builds[@]} == 2)) ;;
        esac
    done
}

@test "modify_then_read: data are right" { expect_right modify_then_read; }
@test "modify_then_read: data are right without a finding, emulated in each mode" { expect_right_emulated "$all_modes" modify_then_read; }
@test "modify_then_read: without any one sync data are wrong with a finding, emulated" { expect_findings_without_syncs 'stale poison' modify_then_read; }
@test "write_then_look: data are right" { expect_right write_then_look; }
@test "write_then_look: data are right without a finding, emulated in each mode" { expect_right_emulated "$all_modes" write_then_look; }
@test "write_then_look: without any one sync data are wrong with a finding, emulated" { expect_findings_without_syncs 'stale poison' write_then_look; }
@test "touch_then_be_written: data are right" { expect_right touch_then_be_written; }
@test "touch_then_be_written: data are right without a finding, emulated in each mode" { expect_right_emulated "$all_modes" touch_then_be_written; }
@test "touch_then_be_written: without any one sync data are wrong with a finding, emulated" { expect_findings_without_syncs 'stale poison' touch_then_be_written; }
@test "written_then_touch: data are right" { expect_right written_then_touch; }
@test "written_then_touch: data are right without a finding, emulated in each mode" { expect_right_emulated "$all_modes" written_then_touch; }
@test "written_then_touch: without any one sync data are wrong with a finding, emulated" { expect_findings_without_syncs 'stale poison' written_then_touch; }
@test "batch: data are right" { expect_right batch; }
@test "batch: data are right without a finding, emulated in each mode" { expect_right_emulated "$all_modes" batch; }
@test "batch: without any one sync data are wrong with a finding, emulated" { expect_findings_without_syncs 'stale poison' batch; }
@test "second_lmr: data are right" { expect_right second_lmr; }
@test "second_lmr: data are right without a finding, emulated in each mode" { expect_right_emulated "$all_modes" second_lmr; }
@test "second_lmr: without any one sync data are wrong with a finding, emulated" { expect_findings_without_syncs 'stale poison' second_lmr; }
@test "shared: data are right" { expect_right shared; }
@test "shared: data are right without a finding, emulated in each mode" { expect_right_emulated "$all_modes" shared; }
@test "shared: without any one sync data are wrong, emulated" { expect_findings_without_syncs 'stale poison' shared; }
@test "ordered: data are right" { expect_right ordered; }
@test "ordered: data are right without a finding, emulated in each mode" { expect_right_emulated "$all_modes" ordered; }
@test "ordered: without any one sync data are wrong with a finding, emulated" { expect_findings_without_syncs 'stale poison' ordered; }

@test "modify_then_read: data are right between uDAPL 1.2 and 2.0" { expect_right_between_versions modify_then_read; }
@test "write_then_look: data are right between uDAPL 1.2 and 2.0" { expect_right_between_versions write_then_look; }

@test "ordered: data are right with RO_AWARE_ before the name of the IA" {
    ia=RO_AWARE_$ia
    expect_right ordered
    expect_right_emulated "$all_modes" ordered
}

# Not in poison: the word is overwritten there whenever the peer writes it, also between the sync and the read,
# where a cache holds the old value or the new one.
@test "atomic_write: data are right without a finding, emulated" {
    expect_right_emulated 'stale evict:1 evict:2 evict:3 passthrough' atomic_write --count 200
}
@test "atomic_write: never torn writes are right without a finding, emulated" {
    expect_right_emulated 'stale evict:1 evict:2 evict:3 passthrough' atomic_write --never-torn --count 200
}
@test "atomic_write: without its sync data are wrong with a finding, emulated" { expect_findings_without_syncs stale atomic_write; }

@test "modify_then_read: compiles by the command of the manual pages, for both versions of uDAPL" {
    cd "$BATS_TEST_DIRNAME/sync_programs"
    flags=(-std=c11 -Wall -Wextra -Werror "-I$BATS_TEST_DIRNAME/../../../udapl/include"
        "-L$release/udapl/registry")
    export LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$release/udapl/registry
    cc "${flags[@]}" modify_then_read.c sync_program.c -ldat -o "$BATS_TEST_TMPDIR/dat1"
    cc "${flags[@]}" -DWITH_DAT2 modify_then_read.c sync_program.c -ldat2 -o "$BATS_TEST_TMPDIR/dat2"
    [[ $(readelf -d "$BATS_TEST_TMPDIR/dat1") == *'[libdat.so.1]'* ]]
    [[ $(readelf -d "$BATS_TEST_TMPDIR/dat2") == *'[libdat2.so.2]'* ]]
    for version in 1 2; do
        run_program 0 "$BATS_TEST_TMPDIR/dat$version" "$ia"
        run_program 1 env COHERDMA_EMULATE=stale "$BATS_TEST_TMPDIR/dat$version" --skip-sync "$ia"
    done
}

@test "misuse prints the usage with status 2" {
    program=$folder/sync_write_then_look_dat1
    for arguments in '' '--skip-sync 2 x' '--skip-sync 0 x' '--bogus x' 'client x' 'client x 0' 'a b c d'; do
        # shellcheck disable=SC2086
        run -2 "$program" $arguments
        [[ $output == usage:* ]]
    done
    run -1 "$program" no-such-ia
    [[ $output == *'DAT_PROVIDER_NOT_FOUND'* ]]
    run -2 "$folder/sync_shared_dat1" server "$ia"
}
