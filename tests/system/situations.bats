#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Programs that are written as uDAPL's manual pages say, on the device that is there: right as they are,
# and right on a played non-coherent one; and wrong there without one of their syncs.
# Run by ci/stages: softrdma run --driver rxe|siw -- bats tests/system/situations.bats

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/lib.bash"
source "$BATS_TEST_DIRNAME/situations.bash"

setup() {
    driver=${DRIVER:-${SOFTRDMA_DEVICE%%[0-9]*}}
    release=${BUILD:-$BATS_TEST_DIRNAME/../../build}/release
    here=$release/tests/system/situations
    # Where the registries look for the others; a program finds its registry by its own run path.
    export LD_LIBRARY_PATH=$release/udapl:$release/ibverbs-glue
    export COHERDMA_PROVIDER=$release/provider/libcoherdma-rdmav34.so
    export DAT_OVERRIDE=/dev/null
    unset COHERDMA_DAT_LIVE RDMAV_DRIVERS IBV_DRIVERS
    ia=$(of "$driver" DEVICE)
    logs=$BATS_TEST_TMPDIR/findings
    mkdir -p "$logs"
}

# played MODE COMMAND...: what both processes found is in $logs.
played() {
    rm -f "$logs"/*
    COHERDMA_EMULATE=$1 COHERDMA_EMULATE_LOG=$logs/%p.json timeout 60 "${@:2}"
}
# Both were played, to their end.
complete() { [[ $(cat "$logs"/*.json | grep -c '"coherdma":"summary"') == 2 ]]; }
findings() { cat "$logs"/*.json | grep '"coherdma":"finding"' || true; }

right() { # MODE NAME [OPTION...]: and nothing is found
    local each
    for each in $(builds "$here" "$2"); do
        run played "$1" "$here/$each" "${@:3}" "$ia"
        echo "$each in $1: status $status: $output"
        [[ $status == 0 ]]
        complete
        [[ -z $(findings) ]]
    done
}
right_in_all() { # NAME [OPTION...]
    local mode
    for mode in stale poison evict:1 evict:2 through; do right "$mode" "$@"; done
}

# wrong NAME MODE...: without any one of its syncs the data are wrong, and a finding says why.
wrong() {
    local each mode sync kind name=$1
    shift
    for each in $(builds "$here" "$name"); do
        for mode in "$@"; do
            sync=0
            for kind in ${without[$name]}; do
                sync=$((sync + 1))
                run played "$mode" "$here/$each" --forget $sync "$ia"
                echo "$each without sync $sync in $mode: status $status: $output"
                [[ $status == 1 ]]
                complete
                [[ $kind == - ]] || findings | grep -qF "\"kind\":\"$kind\""
            done
        done
        run -2 "$here/$each" --forget $((sync + 1)) "$ia" # it has no more
    done
}

# As it is: without emulation, where a sync is not asked for.
plain() { # NAME [OPTION...]
    local each
    for each in $(builds "$here" "$1"); do
        run timeout 60 "$here/$each" "${@:2}" "$ia"
        echo "$each: status $status: $output"
        [[ $status == 0 ]]
    done
}

# between SERVER CLIENT NAME: processes of their own, of these versions of uDAPL.
between() {
    local server port status=0 out
    out=$(mktemp -p "$BATS_TEST_TMPDIR")
    timeout 60 "$here/situation_$3_dat$1" server "$ia" >"$out" 2>&1 3>&- &
    server=$!
    awaited 20 grep -qE '^[0-9]+$' "$out"
    read -r port <"$out"
    timeout 60 "$here/situation_$3_dat$2" client "$ia" "$port" || status=$?
    wait $server || status=$?
    ((status == 0)) || cat "$out"
    return $status
}
between_versions() { # NAME
    between 1 2 "$1"
    between 2 1 "$1"
    COHERDMA_EMULATE=stale COHERDMA_EMULATE_EXIT=7 between 1 2 "$1"
    COHERDMA_EMULATE=poison COHERDMA_EMULATE_EXIT=7 between 2 1 "$1"
}

@test "each program is there in both versions of uDAPL, but what only one has" {
    for each in "${!without[@]}"; do
        case $each in
        ordered) [[ $(builds "$here" "$each") == situation_ordered_dat1 ]] ;;
        atomic_write) [[ $(builds "$here" "$each") == situation_atomic_write_dat2 ]] ;;
        *) [[ $(builds "$here" "$each" | wc -l) == 2 ]] ;;
        esac
    done
}

@test "modify then read: right" { plain modify_then_read; }
@test "modify then read: right, and nothing is found, in each mode" { right_in_all modify_then_read; }
@test "modify then read: without one of its syncs wrong in stale and in poison, and found" { wrong modify_then_read stale poison; }

@test "write then look: right" { plain write_then_look; }
@test "write then look: right, and nothing is found, in each mode" { right_in_all write_then_look; }
@test "write then look: without one of its syncs wrong in stale and in poison, and found" { wrong write_then_look stale poison; }

@test "touch then be written: right" { plain touch_then_be_written; }
@test "touch then be written: right, and nothing is found, in each mode" { right_in_all touch_then_be_written; }
@test "touch then be written: without one of its syncs wrong in stale and in poison, and found" { wrong touch_then_be_written stale poison; }

@test "written then touch: right" { plain written_then_touch; }
@test "written then touch: right, and nothing is found, in each mode" { right_in_all written_then_touch; }
@test "written then touch: without one of its syncs wrong in stale and in poison, and found" { wrong written_then_touch stale poison; }

@test "batch: right" { plain batch; }
@test "batch: right, and nothing is found, in each mode" { right_in_all batch; }
@test "batch: without one of its syncs wrong in stale and in poison, and found" { wrong batch stale poison; }

@test "second lmr: right" { plain second_lmr; }
@test "second lmr: right, and nothing is found, in each mode" { right_in_all second_lmr; }
@test "second lmr: without one of its syncs wrong in stale and in poison, and found" { wrong second_lmr stale poison; }

@test "shared: right" { plain shared; }
@test "shared: right, and nothing is found, in each mode" { right_in_all shared; }
@test "shared: without one of its syncs wrong in stale and in poison" { wrong shared stale poison; }

@test "ordered: right" { plain ordered; }
@test "ordered: right, and nothing is found, in each mode" { right_in_all ordered; }
@test "ordered: without one of its syncs wrong in stale and in poison, and found" { wrong ordered stale poison; }

@test "modify then read: between uDAPL 1.2 and 2.0" { between_versions modify_then_read; }
@test "write then look: between uDAPL 1.2 and 2.0" { between_versions write_then_look; }

@test "ordered: right with RO_AWARE_ before the name" {
    ia=RO_AWARE_$ia
    plain ordered
    right_in_all ordered
}

# Not in poison: there the word is overwritten whenever the peer writes it, be it between the sync and
# the look, where a cache would have the old value or the new one.
@test "atomic write: right on a played device" {
    for mode in stale evict:1 evict:2 through; do right $mode atomic_write --count 2000; done
}
@test "atomic write: without the sync wrong in stale, and found" { wrong atomic_write stale; }

# As the manual pages say it, with the headers and libraries that were built.
@test "built by hand, for either version" {
    cd "$BATS_TEST_DIRNAME/situations"
    flags=(-std=c11 -Wall -Wextra -Werror "-I$BATS_TEST_DIRNAME/../../udapl/include"
        "-L$release/udapl/registry")
    export LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$release/udapl/registry
    cc "${flags[@]}" modify_then_read.c talk.c -ldat -o "$BATS_TEST_TMPDIR/old"
    cc "${flags[@]}" -DWITH_DAT2 modify_then_read.c talk.c -ldat2 -o "$BATS_TEST_TMPDIR/new"
    [[ $(readelf -d "$BATS_TEST_TMPDIR/old") == *'[libdat.so.1]'* ]]
    [[ $(readelf -d "$BATS_TEST_TMPDIR/new") == *'[libdat2.so.2]'* ]]
    for each in old new; do
        run -0 timeout 60 "$BATS_TEST_TMPDIR/$each" "$ia"
        run -1 env COHERDMA_EMULATE=stale timeout 60 "$BATS_TEST_TMPDIR/$each" --forget "$ia"
    done
}

@test "misuse is told" {
    program=$here/situation_write_then_look_dat1
    for words in '' '--forget 2 x' '--forget 0 x' '--nonsense x' 'client x' 'client x 0' 'a b c d'; do
        # shellcheck disable=SC2086
        run -2 "$program" $words
        [[ $output == usage:* ]]
    done
    run -1 "$program" no-such-ia
    [[ $output == *'DAT_PROVIDER_NOT_FOUND'* ]]
    run -2 "$here/situation_shared_dat1" server "$ia"
}
