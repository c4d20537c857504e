#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# softrdma without a guest: its kernels, its errors, its help.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"
source "$BATS_TEST_DIRNAME/../lib/caller.bash"

# The cases use an archive of small packages: they test what is left in the cache, not the kernels. The tests
# lab.kernel.debian and lab.kernel.uml fetch and build real kernels.
setup_file() {
    "$BATS_TEST_DIRNAME/small_archive" "$BATS_FILE_TMPDIR/archive"
    # Programs that do their work, and then block if their command line matches the pattern in the file "block".
    mkdir "$BATS_FILE_TMPDIR/bin"
    for name in apt-get dpkg-deb make; do
        cat >"$BATS_FILE_TMPDIR/bin/$name" <<END
#!/bin/sh
"$(command -v $name)" "\$@" || exit
read -r pattern <"$BATS_FILE_TMPDIR/block"
case "$name \$*" in \$pattern) echo \$\$ >"$BATS_FILE_TMPDIR/blocked" && exec sleep infinity ;; esac
END
        chmod +x "$BATS_FILE_TMPDIR/bin/$name"
    done
}
use_small_archive() {
    export SOFTRDMA_CACHE=$BATS_TEST_TMPDIR/cache SOFTRDMA_MIRROR=file:$BATS_FILE_TMPDIR/archive
    export APT_CONFIG=$BATS_FILE_TMPDIR/archive/apt.conf PATH=$BATS_FILE_TMPDIR/bin:$PATH
    blocked=$BATS_FILE_TMPDIR/blocked # the PID of the program that blocks
    block_at none
}
block_at() { echo "$1" >"$BATS_FILE_TMPDIR/block"; } # PATTERN

# kill_at STEP PATTERN COMMAND...: kills softrdma while a program blocks whose command line matches the pattern.
# softrdma has printed the step, and leaves no process and no incomplete file in the cache.
kill_at() {
    rm -f "$blocked"
    block_at "$2"
    start_softrdma "${@:3}"
    wait_until is_ready_or_ended "$pid" test -s "$blocked"
    grep "^softrdma: $1" err || { cat err && return 1; }
    kill -KILL "$pid"
    wait "$pid" || true # killed by the signal
    wait_until is_nothing_left || {
        echo "killed at '$1': $(left_over)"
        cat err
        return 1
    }
    [[ ! -e /proc/$(<"$blocked") ]]
    [[ -z $(find "$SOFTRDMA_CACHE" -maxdepth 3 \( -name '*.part' -o -path '*/work/*' \)) ]]
}

@test "kernel fetch that is killed leaves no incomplete file" {
    use_small_archive
    kill_at 'unpacking kernel' 'dpkg-deb --fsys-tarfile *linux-image*' kernel fetch --driver siw
    kill_at 'downloading linux-source' 'apt-get *download linux-source*' kernel fetch --driver siw
    kill_at 'unpacking siw' 'dpkg-deb --fsys-tarfile *linux-source*' kernel fetch --driver siw
    block_at none
    softrdma kernel fetch --driver siw
    run -0 softrdma kernel list
    [[ $output == *yes* ]]
}

@test "kernel fetch replaces a damaged kernel" {
    use_small_archive
    softrdma kernel fetch
    kernel=$(softrdma kernel list --json | jq -r '.kernels[0].path')
    dd if=/dev/zero of="$kernel/vmlinuz" bs=1 seek=400 count=9 conv=notrunc status=none
    run -0 softrdma kernel fetch
    [[ $output == *"vmlinuz has other contents"* ]]
    find "$kernel/lib" -name 'rdma_rxe.ko*' -delete
    run -0 softrdma kernel fetch
    [[ $output == *"rdma_rxe.ko is missing"* ]]
    find "$kernel/lib" -name 'rdma_rxe.ko*' | grep -q .
}

@test "kernel build that is killed leaves no incomplete file" {
    use_small_archive
    kill_at downloading 'apt-get *download linux-source*' kernel build --newest
    kill_at 'building the user-mode kernel' 'make *linux' kernel build --newest
    run -77 softrdma run --in uml -- true
    [[ $output == *"softrdma kernel build"* ]]
}

@test "kernel build continues a build that was killed, or remove removes its tree" {
    use_small_archive
    kill_at 'building the user-mode kernel' 'make *linux' kernel build --newest
    run -0 softrdma kernel list
    [[ $output == *"9.9 "*"uml (unfinished)"* ]]
    run -0 softrdma kernel remove 9.9
    [[ ! $(find "$SOFTRDMA_CACHE" -name '*.tree') ]]

    kill_at 'building the user-mode kernel' 'make *linux' kernel build --newest
    stale=$SOFTRDMA_CACHE/uml/9.9.8-1-01234567.tree
    mkdir "$stale"
    block_at none
    run -0 softrdma kernel build --newest
    [[ $output == *"continuing the build in "* && $output != *downloading* ]]
    [[ $output == *"user-mode kernel 9.9.9-1 is in "* ]]
    [[ ! $(find "$SOFTRDMA_CACHE" -name '*.tree') ]]
}

@test "a damaged user-mode kernel is not run" {
    use_own_cache uml
    dd if=/dev/zero of="$(softrdma kernel path)" bs=1 seek=4000000 count=9 conv=notrunc status=none
    run -1 softrdma run --in uml -- true
    [[ $output == *"linux has other contents"* && $output == *"softrdma kernel build"* ]]
}

@test "run --in uml without a kernel of that version: status 77, and the command to type" {
    run -77 softrdma run --in uml --kernel 4.20 -- true
    [[ $output == *"softrdma kernel build 4.20"* ]]
}

@test "run --suite outside QEMU: status 77, and the command to type" {
    for backend in uml here; do
        run -77 softrdma run --in $backend --suite sid -- true
        [[ $output == *sid*"--in qemu"* ]]
    done
}

@test "run --in uml does not fall back to the running kernel" {
    run -77 softrdma run --in uml -q -- env SOFTRDMA_CACHE=/nowhere "$program" run --in uml -- true
    [[ $output == *"no user-mode kernel is built"* ]]
}

@test "run --hosts 3 and --peer outside user mode: status 77, and the command to type" {
    for backend in qemu here; do
        for hosts in '--hosts 3' '--as 1 --peer 127.0.0.1'; do
            # shellcheck disable=SC2086
            SOFTRDMA_KEY=$(softrdma key) run -77 softrdma run --in $backend $hosts -- true
            [[ ${#lines[@]} == 1 && $output == *"--in uml"* ]]
        done
    done
}

@test "an unreachable mirror: status 77, a message, no incomplete file" {
    export SOFTRDMA_CACHE=$BATS_TEST_TMPDIR/cache SOFTRDMA_MIRROR=http://127.0.0.1:9/debian
    run -77 softrdma run --in qemu -q -- true
    [[ $output == *"no network"* ]]
    [[ -z $(find "$SOFTRDMA_CACHE" -name vmlinuz -o -name '*.part') ]]
}

@test "a full disk: status 77 and a message that names the folder" {
    mkdir small
    run -77 unshare --mount sh -c 'mount -t tmpfs -o size=20m,mode=755 small small && SOFTRDMA_CACHE=$PWD/small exec "$0" run --in qemu -- true' "$program"
    [[ $output == *"not enough space for"* ]]
}

@test "invalid arguments: status 2 and a message of one line" {
    while read -r arguments; do
        # shellcheck disable=SC2086
        run -2 softrdma $arguments
        [[ ${#lines[@]} == 1 && $output == softrdma:* ]] || {
            echo "softrdma $arguments: $output"
            return 1
        }
    done <<'END'
unknown-command
run
run --driver roce -- true
run --hosts 0 -- true
run --hosts 33 -- true
run --loss 1% -- true
run --hosts 2 --loss 101% -- true
run --hosts 2 --delay soon -- true
run --hosts 2 --rate 1gbit -- true
run --hosts 2 --seed 1 -- true
run --wire -- true
wire
wire --loss 1%
wire --host 1 --loss 1 --for soon
run --corrupt 1% -- true
run --in uml --hosts 2 --pcap /no/such/folder/file -- true
run --peer 127.0.0.1 -- true
run --as 1 -- true
run --as 3 --peer 127.0.0.1 -- true
run --as 1 --peer 127.0.0.1 --hosts 2 -- true
run --as 1 --peer 127.0.0.1:99999 -- true
run --as 1 --peer 127.0.0.1 --port 0 -- true
run --as 1 --peer 127.0.0.1 --key /no/such/file -- true
run --as 1 --peer 127.0.0.1 --key /dev/null -- true
run --as 1 --peer 127.0.0.1 --key . -- true
run --as 1 --peer 127.0.0.1 --key /etc/hostname -- true
run --key /etc/hostname -- true
run --in qemu --kernel newest -- true
run --in qemu -q --write /no/such/folder -- true
run --suite buster -- true
up --driver roce
up --name 9/x
up --netdev no-such-if
down no-such-device
kernel
kernel build 9.9 --newest
kernel list --newest
kernel remove
kernel remove 0.1
END
}

@test "run --peer without a key, or with one that other users can read: status 2, and the command to type" {
    run -2 softrdma run --as 1 --peer 127.0.0.1 -- true
    [[ ${#lines[@]} == 1 && $output == *'softrdma key FILE'*'--key FILE' ]]
    softrdma key key
    run -2 softrdma run --as 3 --peer 127.0.0.1 --key key -- true
    [[ $output == *'--as 3'* ]] # the key is not the fault
    chmod 644 key
    run -2 softrdma run --as 1 --peer 127.0.0.1 --key key -- true
    [[ ${#lines[@]} == 1 && $output == *'chmod 600 key'* ]]
    SOFTRDMA_KEY=short run -2 softrdma run --as 1 --peer 127.0.0.1 -- true
    [[ $output == *'SOFTRDMA_KEY: this is no key'* && $output != *short* ]]
}

@test "key writes a new file that only the caller can read, or prints the key" {
    umask 0
    run -0 softrdma key key
    [[ -z $output && $(stat -c %a key) == 600 ]]
    contents=$(<key)
    run -1 softrdma key key
    [[ $output == *'key exists'*'rm key' && $(<key) == "$contents" ]]
    run -0 softrdma key
    [[ $output =~ ^softrdma-key-1-[0-9a-f]{64}$ && $output != "$contents" ]]
    run -1 softrdma key /no/such/folder/key
    [[ $output == *'No such file or directory' ]]
}

@test "output that cannot be written: status 1, and a message of one line" {
    for arguments in key list "list --json" "kernel list" "kernel list --json" version "version --json" --help "run --help" --version; do
        for redirections in '>/dev/full' '>&-' '<&- >&-'; do
            run -1 sh -c "exec \"\$0\" $arguments 2>&1 $redirections" "$program"
            echo "$arguments $redirections: $output"
            [[ ${#lines[@]} == 1 && $output == *'cannot write to standard output: '* ]]
        done
    done
    for arguments in key --help; do
        run -1 sh -c "exec \"\$0\" $arguments >&- 2>&-" "$program"
        [[ -z $output ]]
    done
}

@test "a pipe whose reader has ended is no error" {
    mkfifo pipe
    for arguments in list --help "run --help" --version; do
        run -0 sh -c "exec 4<>pipe 5>pipe 4<&- && exec \"\$0\" $arguments 2>&1 >&5" "$program"
        echo "$arguments: $output"
        [[ -z $output ]]
    done
}

@test "a command does not get the key of the environment" {
    SOFTRDMA_KEY=$(softrdma key) run -0 softrdma run --in uml -q -- sh -c 'echo "key: ${SOFTRDMA_KEY-none}"'
    [[ $output == 'key: none' ]]
}

@test "control characters of names and arguments are not printed" {
    run -2 softrdma run --as 1 --peer $'host\e[31m:0' -- true
    [[ ${#lines[@]} == 1 && $output == *'host\x1b[31m:0'* ]]
}

@test "up and run --in here without the drivers: status 77" {
    [[ ! -d /sys/module/rdma_rxe ]] || skip 'this kernel has rxe'
    run -77 softrdma up
    run -77 softrdma run --in here -- true
    [[ $output == *'no rdma_rxe module; use: softrdma run --in '* ]]
}

@test "options --help and --version print to stdout" {
    for arguments in --help "run --help" "shell --help" "bench --help" "up --help" "kernel --help" "key --help" "version --help" --version version; do
        # shellcheck disable=SC2086
        run -0 --separate-stderr softrdma $arguments
        # shellcheck disable=SC2154
        [[ -n $output && -z $stderr ]]
    done
}
