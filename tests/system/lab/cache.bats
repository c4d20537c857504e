#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The cache of softrdma: what it removes, and which files it trusts. The packages are those of a small archive.
# $ROUNDS: how often two builds at once are tried; by default fewer than in lab.cache.rounds.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"
source "$BATS_TEST_DIRNAME/../lib/caller.bash"

# A folder that all users can enter, with the archive and a copy of softrdma.
setup_file() {
    umask 022
    shared=$(mktemp -d /tmp/softrdma_cache.XXXXXX)
    chmod 755 "$shared"
    export shared
    "$BATS_TEST_DIRNAME/small_archive" "$shared/archive"
    mkdir "$shared/scripts"
    cp -r "$BATS_TEST_DIRNAME/../../../scripts/"{softrdma,lab} "$shared/scripts"
    cp "$shared/archive/pinned_kernel" "$shared/scripts/lab/kernel"
}
teardown_file() { rm -rf --one-file-system "$shared"; }

use_small_archive() {
    export SOFTRDMA_CACHE=$BATS_TEST_TMPDIR/cache SOFTRDMA_MIRROR=file:$shared/archive APT_CONFIG=$shared/archive/apt.conf
    unset SOFTRDMA_OLD_LISTS
    program=$shared/scripts/softrdma
}
# snapshot FOLDER: prints the names, types, modes and contents of all in it.
snapshot() { (cd "$1" && find . -printf '%p %y %m %T@ %l\n' | sort && find . -type f -print0 | sort -z | xargs -0 sha256sum); }
# make_files FOLDER: files of a user, some with the names of folders of a cache.
make_files() {
    mkdir -p "$1/work/uml.11211" "$1/work/uml.0123456789abcdef" "$1/uml/6.1-1-01234567.tree" "$1/apt/sid-amd64"
    for file in work/thesis work/uml.11211/thesis work/uml.0123456789abcdef/thesis uml/6.1-1-01234567.tree/thesis apt/sid-amd64/thesis; do
        echo "$file" >"$1/$file"
    done
}

@test "a folder with other files that SOFTRDMA_CACHE names is refused, and stays as it is" {
    use_small_archive
    export SOFTRDMA_CACHE=$PWD/scratch
    make_files scratch
    before=$(snapshot scratch)
    for command in 'kernel build' 'kernel fetch --driver siw' 'kernel list' 'kernel remove 6.1' 'run --in uml -- true' 'run --in qemu -- true'; do
        # shellcheck disable=SC2086
        run softrdma $command
        [[ $(snapshot scratch) == "$before" ]] || { echo "$command: $output" && return 1; }
        [[ $status == 2 && $output == *"SOFTRDMA_CACHE=$PWD/scratch/softrdma" ]] || { echo "$command: $status $output" && return 1; }
    done
    mkdir scratch/softrdma
    before=$(snapshot scratch)
    SOFTRDMA_CACHE=$PWD/scratch/softrdma softrdma kernel build
    rm -r scratch/softrdma/*
    [[ $(snapshot scratch | grep -v ' d ') == "$(grep -v ' d ' <<<"$before")" ]]
}

# in_namespace COMMAND...: starts softrdma COMMAND in a PID namespace, as process $pid. Its output is in $log. Its process
# ids are not those of another namespace: $spent ids were in use before.
in_namespace() {
    rm -f "$log.started"
    # shellcheck disable=SC2016 # $0 and $@ are for the inner shell
    # shellcheck disable=SC2154 # $unshare and $spent are those of the case
    "${unshare[@]}" --pid --fork --kill-child --mount-proc sh -c 'touch "$1"; shift; for _ in $(seq "$0"); do (:); done; "$@"; exit $?' \
        "$spent" "$log.started" "$program" "$@" >"$log" 2>&1 3>&- &
    pid=$!
}
# expect_end PID LOG: that softrdma succeeded.
expect_end() {
    local status=0
    wait "$1" || status=$?
    [[ $status == 0 ]] || {
        echo "status $status"
        cat "$2"
        find "$SOFTRDMA_CACHE" -printf '%p %y %m %s %T@\n' | sort
        return 1
    }
}

# build_at_once: starts two builds in one cache, kills one at a random moment, and starts that again.
build_at_once() {
    local commands=('kernel build' 'kernel fetch --driver siw') logs=(first second) pids=() victim=$((RANDOM % 2)) number
    ((RANDOM % 3)) || commands[1]=${commands[0]} # one entry, which both make
    rm -rf "$SOFTRDMA_CACHE"
    for number in 0 1; do
        log=${logs[number]} spent=$((RANDOM % 40))
        # shellcheck disable=SC2086
        in_namespace ${commands[number]}
        pids+=("$pid")
    done
    # Earlier, unshare has not asked the kernel yet to kill the namespace with it: of 300 that were killed at once, 9
    # left their program running, and the next round would remove its cache.
    wait_until is_ready_or_ended "${pids[victim]}" test -e "${logs[victim]}.started"
    pause "0.$(printf %03d $((RANDOM % 500)))" # the subject of the test
    kill -KILL "${pids[victim]}" || true # it may have ended
    wait "${pids[victim]}" || ((++killed))
    log=${logs[victim]}
    # shellcheck disable=SC2086
    in_namespace ${commands[victim]}
    pids[victim]=$pid
    for number in 0 1; do expect_end "${pids[number]}" "${logs[number]}"; done
    for number in 0 1; do
        # shellcheck disable=SC2086
        softrdma ${commands[number]} >again 2>&1 || { cat again && return 1; }
        ! grep -E 'damaged|downloading|building' again || return 1
    done
    # The next build removes what the killed one left.
    { softrdma kernel remove 9.9 && softrdma kernel build; } >again 2>&1 || { cat again && return 1; }
    left=$(find "$SOFTRDMA_CACHE" -name '*.part' -o -name '*.tree' -o -path '*/work/*')
    [[ ! $left ]] || { echo "left: $left" && return 1; }
}
# build_rounds: as many as $ROUNDS.
build_rounds() {
    local round killed=0
    : "${ROUNDS:=4}"
    make_files neighbor
    before=$(snapshot neighbor)
    for ((round = 0; round < ROUNDS; ++round)); do build_at_once || { echo "round $round" && return 1; }; done
    echo "# $ROUNDS rounds, $killed builds killed before their end" >&3
    [[ $(snapshot neighbor) == "$before" ]]
}

@test "of two builds at once in two PID namespaces, one is killed: both end right" {
    [[ $(id -u) == 0 ]] || skip 'needs root'
    use_small_archive
    unshare=(unshare)
    build_rounds
}

@test "of two builds at once of an ordinary user in two user namespaces, one is killed: both end right" {
    unshare -Ur true || skip 'user namespaces are not permitted'
    use_small_archive
    unshare=(unshare -Ur)
    if [[ $(id -u) == 0 ]]; then # the rounds as another user
        mkdir "$shared/user"
        chown 1234 "$shared/user"
        cd "$shared/user"
        export SOFTRDMA_CACHE=$shared/user/cache HOME=$shared/user TMPDIR=$shared/user PYTHONDONTWRITEBYTECODE=1
        export -f build_rounds build_at_once in_namespace expect_end make_files snapshot pause softrdma wait_until is_ready_or_ended
        export program BATS_TEST_DIRNAME
        setpriv --reuid 1234 --regid 1234 --clear-groups bash -euo pipefail -c '
            exec {idle_pipe}<> <(:)
            unshare=(unshare -Ur)
            build_rounds'
    else
        build_rounds
    fi
}

@test "a build is not disturbed by one that begins in another PID namespace" {
    [[ $(id -u) == 0 ]] || skip 'needs root'
    use_small_archive
    unshare=(unshare)
    # A dpkg-deb that waits before it unpacks the source for the first build.
    mkdir bin
    printf '#!/bin/sh\ncase $* in *linux-source*) [ -e %s ] || { touch %s; until [ -e %s ]; do sleep 0.1; done; };; esac\nexec %s "$@"\n' \
        "$PWD/waits" "$PWD/waits" "$PWD/go" "$(command -v dpkg-deb)" >bin/dpkg-deb
    chmod +x bin/dpkg-deb
    log=first spent=50
    PATH=$PWD/bin:$PATH in_namespace kernel build
    first=$pid
    wait_until is_ready_or_ended "$first" test -e waits
    log=second spent=0
    in_namespace kernel fetch
    expect_end "$pid" second
    touch go
    expect_end "$first" first
}

# make_kernel: a user-mode kernel in the cache, which cannot be started.
make_kernel() {
    use_small_archive
    softrdma kernel build >out 2>&1 || { cat out && return 1; }
    kernel=$(softrdma kernel path)
}

@test "a cache that cannot be used is not reported as a mirror that cannot be reached" {
    use_small_archive
    softrdma kernel build --newest >out 2>&1 || { cat out && return 1; }
    rm -r "$SOFTRDMA_CACHE"/apt/* "$SOFTRDMA_CACHE"/uml
    for suite in sid forky trixie bookworm; do mkdir "$SOFTRDMA_CACHE/apt/$suite-$(dpkg --print-architecture).lock"; done
    for command in 'kernel build --newest' 'kernel fetch 9.9'; do
        # shellcheck disable=SC2086
        run -77 softrdma $command
        [[ $output == *"cannot open $SOFTRDMA_CACHE/apt/"*.lock:*SOFTRDMA_CACHE* && $output != *'not reachable'* ]]
    done
    # The mirror has no backports.
    rm -r "$SOFTRDMA_CACHE"/apt/*
    run -77 softrdma kernel fetch 9.8
    [[ $output == *'no kernel 9.8 '*' (not reachable)'*sid* ]]
}

@test "a user-mode kernel that cannot be executed is reported with its reason" {
    make_kernel # the program has no permission to be executed
    run -77 softrdma run --in uml -- true
    [[ $output == *"the user-mode kernel $kernel cannot be started: Permission denied (is its file system mounted noexec?); set SOFTRDMA_CACHE"* ]]
    [[ ${#lines[@]} == 1 ]] || { echo "$output" && return 1; }
}

# expect_refused PATH TEXT: no command uses the cache.
expect_refused() {
    local command
    for command in 'kernel path' 'kernel list' 'run --in uml -- true' 'kernel build'; do
        # shellcheck disable=SC2086
        run softrdma $command
        # The list does not read all files.
        [[ $command == 'kernel list' && $1 == "$kernel" ]] ||
            [[ $status == 1 && $output == *"$1"*"$2"* && ${#lines[@]} == 1 ]] || {
            echo "$command: status $status: $output"
            return 1
        }
    done
}

@test "a kernel that others may write is not run" {
    make_kernel
    bits_of_others=(o+w)
    if [[ $(id -u) == 0 ]]; then # another group than the caller's
        chgrp -R 1234 "$SOFTRDMA_CACHE"
        bits_of_others+=(g+w)
    fi
    for path in "$kernel" "${kernel%/*}" "${kernel%/*/*}" "$SOFTRDMA_CACHE"; do
        mode=$(stat -c %a "$path")
        for bits in "${bits_of_others[@]}"; do
            chmod "$bits" "$path"
            expect_refused "$path" 'chmod '
            chmod "$mode" "$path"
        done
    done
    softrdma kernel path
}

@test "a kernel of another user is not run" {
    [[ $(id -u) == 0 ]] || skip 'needs root'
    make_kernel
    for path in "$kernel" "${kernel%/*}" "${kernel%/*/*}" "$SOFTRDMA_CACHE"; do
        chown 1234 "$path"
        expect_refused "$path" 'set SOFTRDMA_CACHE'
        chown 0 "$path"
    done
    softrdma kernel path
    chown -R 1234 "$SOFTRDMA_CACHE"
    expect_refused "$SOFTRDMA_CACHE" 'belongs to user 1234'
}

@test "a build with umask 000 or 002 makes files that only their owner can write" {
    umask 000
    make_kernel
    softrdma kernel fetch --driver siw >out 2>&1
    softrdma kernel list >out
    [[ ! $(find "$SOFTRDMA_CACHE" ! -type l -perm /022) ]]
    SOFTRDMA_CACHE=$BATS_TEST_TMPDIR/other
    umask 002
    make_kernel
    [[ ! $(find "$SOFTRDMA_CACHE" ! -type l -perm /022) ]]
}

@test "lists of packages that have expired are refused, unless they are asked for" {
    [[ $(id -u) == 0 ]] || skip 'only root can exchange the keyring'
    type gpg >/dev/null || skip 'gpg is not installed'
    cp -r "$shared/archive" archive
    export GNUPGHOME=$PWD/keys
    mkdir -m 700 keys
    gpg --batch --quiet --passphrase '' --quick-generate-key 'none <none@example.org>' rsa2048 sign never
    gpg --export >key.gpg
    use_small_archive
    export SOFTRDMA_MIRROR=file:$PWD/archive APT_CONFIG=$PWD/archive/apt.conf
    # apt's default, without the settings of this machine.
    echo 'Dir::Etc::Parts "-"; Dir::Etc::Main "-";' >"$APT_CONFIG"
    sign_release() { # VALID-UNTIL
        { date -u '+Date: %a, %d %b %Y %T UTC' -d '3 days ago' && echo "Valid-Until: $1" && grep -v '^Date\|^Valid' archive/dists/sid/Release; } >Release
        mv Release archive/dists/sid/Release
        gpg --batch --quiet --yes --clearsign --output archive/dists/sid/InRelease archive/dists/sid/Release
    }
    with_key() { # COMMAND...
        # shellcheck disable=SC2016
        unshare --mount sh -c 'mkdir -p /usr/share/keyrings && mount -t tmpfs none /usr/share/keyrings && cp "$0" /usr/share/keyrings/debian-archive-keyring.gpg && exec "$@"' \
            key.gpg "$program" "$@"
    }
    sign_release "$(LC_ALL=C date -u '+%a, %d %b %Y %T UTC' -d '+1 day')"
    run -0 with_key kernel fetch
    rm -r "$SOFTRDMA_CACHE"
    sign_release "$(LC_ALL=C date -u '+%a, %d %b %Y %T UTC' -d '1 day ago')"
    for command in 'kernel fetch' 'kernel fetch 9.9' 'kernel build --newest'; do
        # shellcheck disable=SC2086
        run -1 with_key $command
        [[ $output == *'are too old (Release file for '*' is expired (invalid since '*SOFTRDMA_OLD_LISTS=yes ]]
        [[ ! $(find "$SOFTRDMA_CACHE" -name vmlinuz -o -name linux) ]]
    done
    SOFTRDMA_OLD_LISTS=yes with_key kernel fetch
    # What was read by the lenient rule is not used without it.
    run -1 with_key kernel fetch 9.9.0-2-none
    [[ $output == *'are too old'* ]]
}
