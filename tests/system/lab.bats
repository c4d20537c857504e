#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# softrdma before any guest runs: its kernels, its errors, its help.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/lib.bash"
source "$BATS_TEST_DIRNAME/caller.bash"

# killed_at SECONDS... -- COMMAND...: softrdma killed after so long leaves nothing, nothing half-made.
killed_at() {
    local moments=()
    while [[ $1 != -- ]]; do
        moments+=("$1")
        shift
    done
    shift
    for moment in "${moments[@]}"; do
        begin "$@"
        sleep "$moment"
        kill -KILL "$pid" 2>/dev/null || true
        wait "$pid" || true
        # A source tree may take its time to go; a build that went on would take longer yet.
        awaited 100 nothing_left || {
            echo "killed after $moment s: $(left_over)"
            cat err
            return 1
        }
        [[ -z $(find "$SOFTRDMA_CACHE" -maxdepth 3 \( -name '*.part' -o -path '*/work/*' \)) ]]
    done
}

@test "killed while it fetches a kernel and builds siw, nothing half-made is left" {
    own_cache
    killed_at 1 4 8 13 -- kernel fetch --driver siw
    softrdma kernel fetch --driver siw
    run -0 softrdma kernel list
    [[ $output == *yes* ]]
}

@test "a damaged kernel is noticed and made again" {
    own_cache kernels
    kernel=$(softrdma kernel list --json | jq -r '.kernels[0].path')
    dd if=/dev/zero of="$kernel/vmlinuz" bs=1 seek=4000000 count=9 conv=notrunc status=none
    run -0 softrdma kernel fetch
    [[ $output == *"vmlinuz has other contents"* ]]
    find "$kernel/lib" -name 'rdma_rxe.ko*' -delete
    run -0 softrdma kernel fetch
    [[ $output == *"rdma_rxe.ko is missing"* ]]
    find "$kernel/lib" -name 'rdma_rxe.ko*' | grep -q .
}

@test "killed while it builds a user-mode kernel, nothing half-made is left" {
    own_cache
    killed_at 2 25 -- kernel build
    run -77 softrdma run --in uml -- true
    [[ $output == *"softrdma kernel build"* ]]
}

@test "a damaged user-mode kernel is not run" {
    own_cache uml
    dd if=/dev/zero of="$(softrdma kernel path)" bs=1 seek=4000000 count=9 conv=notrunc status=none
    run -1 softrdma run --in uml -- true
    [[ $output == *"linux has other contents"* && $output == *"softrdma kernel build"* ]]
}

@test "no user-mode kernel of that version: status 77, and what to type" {
    run -77 softrdma run --in uml --kernel 4.20 -- true
    [[ $output == *"softrdma kernel build 4.20"* ]]
}

@test "another release's programs are of a QEMU guest alone: status 77, and what to type" {
    for place in uml here; do
        run -77 softrdma run --in $place --suite sid -- true
        [[ $output == *sid*"--in qemu"* ]]
    done
}

@test "--in uml is not taken for here, even by a kernel that has the drivers" {
    run -77 softrdma run --in uml -q -- env SOFTRDMA_CACHE=/nowhere "$program" run --in uml -- true
    [[ $output == *"no user-mode kernel is built"* ]]
}

@test "hosts that need a kernel each are of the user-mode kernel: status 77, and what to type" {
    for place in qemu here; do
        for hosts in '--hosts 3' '--as 1 --peer 127.0.0.1'; do
            # shellcheck disable=SC2086
            run -77 softrdma run --in $place $hosts -- true
            [[ ${#lines[@]} == 1 && $output == *"--in uml"* ]]
        done
    done
}

@test "no way to the mirror: status 77, a line that says so, nothing half-made" {
    export SOFTRDMA_CACHE=$BATS_TEST_TMPDIR/cache SOFTRDMA_MIRROR=http://127.0.0.1:9/debian
    run -77 softrdma run --in qemu -q -- true
    [[ $output == *"no network"* ]]
    [[ -z $(find "$SOFTRDMA_CACHE" -name vmlinuz -o -name '*.part') ]]
}

@test "no room on the disk: status 77 and a line that says where" {
    mkdir small
    run -77 unshare --mount sh -c 'mount -t tmpfs -o size=20m small small && SOFTRDMA_CACHE=$PWD/small exec "$0" run --in qemu -- true' "$program"
    [[ $output == *"no room for"* ]]
}

@test "misuse is status 2 and one line that says what to do" {
    while read -r words; do
        # shellcheck disable=SC2086
        run -2 softrdma $words
        [[ ${#lines[@]} == 1 && $output == softrdma:* ]] || {
            echo "softrdma $words: $output"
            return 1
        }
    done <<'END'
nonsense
run
run --driver roce -- true
run --hosts 0 -- true
run --hosts 33 -- true
run --loss 1% -- true
run --hosts 2 --loss 101% -- true
run --hosts 2 --delay soon -- true
run --peer 127.0.0.1 -- true
run --as 1 -- true
run --as 3 --peer 127.0.0.1 -- true
run --as 1 --peer 127.0.0.1 --hosts 2 -- true
run --as 1 --peer 127.0.0.1:99999 -- true
run --as 1 --peer 127.0.0.1 --port 0 -- true
run --in qemu --kernel newest -- true
run --in qemu -q --write /no/such/folder -- true
run --suite buster -- true
up --driver roce
up --name 9/x
up --netdev no-such-if
down no-such-device
kernel
kernel remove
kernel remove 0.1
END
}

@test "what this machine cannot do is status 77" {
    [[ ! -d /sys/module/rdma_rxe ]] || skip 'this kernel has rxe'
    run -77 softrdma up
    run -77 softrdma run --in here -- true
    [[ $output == *"--in qemu"* ]]
}

@test "--help and --version are for stdout" {
    for words in --help "run --help" "up --help" "kernel --help" --version; do
        # shellcheck disable=SC2086
        run -0 --separate-stderr softrdma $words
        # shellcheck disable=SC2154
        [[ -n $output && -z $stderr ]]
    done
}
