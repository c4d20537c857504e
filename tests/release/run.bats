#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The files of a release ($DIST) in roots of several systems ($ROOTS), as users without privileges.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/../system/lib/lib.bash"

USER_ID=1234
# A transfer between two hosts. rping compares the data (-V) and prints them (-v). At its end, that of rdma-core 65
# may wait for an event that its rdma_destroy_id() has removed (5 of 110 runs).
# shellcheck disable=SC2016 # $HOST2 is for the guest's shell
RPING='on 2 rping -s -a $HOST2 -C 3 & sleep 1
    stdbuf -oL timeout 10 rping -c -a $HOST2 -C 3 -vV || [ $? = 124 ]
    wait'

setup() {
    [[ $(id -u) == 0 ]] || skip 'only root enters a root of Debian here'
    cd "$BATS_TEST_TMPDIR" || return
    umask 022
}

# in_root RELEASE COMMAND...: runs it in the root as a user that has neither a name nor a home, in the folder /tmp.
# The root is not changed. The files of the release are in /dist.
in_root() {
    # shellcheck disable=SC2016 # $1 and $@ are for the inner shells
    unshare --mount --propagation private --pid --fork --kill-child --mount-proc sh -eu -c '
        root=$1 dist=$2 user=$3
        shift 3
        mount --bind "$root" /mnt
        cd /mnt
        mount -t tmpfs -o mode=755 none dev
        for node in null zero full random urandom; do touch "dev/$node" && mount --bind "/dev/$node" "dev/$node"; done
        mkdir dev/shm
        mount -t tmpfs -o mode=1777 none dev/shm
        mount -t tmpfs -o mode=1777 none tmp
        mount -t tmpfs none run
        mkdir run/dist
        mount --bind -o ro "$dist" run/dist
        mount --bind /proc proc
        mount -o remount,bind,ro /mnt
        exec chroot --userspec "$user:$user" /mnt env -i PATH=/usr/bin:/bin:/usr/sbin:/sbin HOME=/nonexistent \
            sh -eu -c "cd /tmp; \"\$@\"" - "$@"' - "$ROOTS/$1" "$DIST" "$USER_ID" "${@:2}"
}

# expect_rping COMMAND...: it succeeds, with the output of RPING.
expect_rping() {
    run "$@"
    [[ $status == 0 && $output == *'ping data: rdma-ping-2: CDEFGHIJ'* ]] || {
        echo "status $status: $output"
        return 1
    }
}

# run_archive RELEASE. Python unpacks it: not each root has xz.
run_archive() {
    # shellcheck disable=SC2016 # $0 is for the inner shell
    expect_rping in_root "$1" sh -c 'python3 -m tarfile -e /run/dist/softrdma-*.tar.xz . && cd softrdma-* &&
        exec bin/softrdma run --hosts 2 -- sh -c "$0"' "$RPING"
}
@test "Debian 11: the archive runs where it is unpacked" { run_archive bullseye; }
@test "Debian 12: the archive runs where it is unpacked" { run_archive bookworm; }
@test "Debian 13: the archive runs where it is unpacked" { run_archive trixie; }
@test "Debian sid: the archive runs where it is unpacked" { run_archive sid; }

@test "Ubuntu 22.04: the archive runs where it is unpacked" { run_archive jammy; }
@test "a root without glibc: the archive runs where it is unpacked" {
    # busybox has no stdbuf; this rping ends by itself.
    RPING=${RPING/stdbuf -oL /}
    # shellcheck disable=SC2016 # $0 is for the inner shell
    expect_rping in_root musl sh -c 'tar -xJf /run/dist/softrdma-*.tar.xz && cd softrdma-* && exec bin/softrdma run --hosts 2 -- sh -c "$0"' "$RPING"
}
@test "the paths of the archive and of temporary files may have spaces and quotation marks, and be relative" {
    # shellcheck disable=SC2016 # the variables are for the inner shell
    run -0 --separate-stderr in_root trixie sh -euc 'mkdir "a \"b c" && cd "a \"b c" && python3 -m tarfile -e /run/dist/softrdma-*.tar.xz . && cd softrdma-*
        bin/softrdma run --quiet -- echo folder
        TMPDIR=$PWD bin/softrdma run --quiet -- echo absolute
        TMPDIR=share bin/softrdma run --quiet -- echo relative'
    [[ $output == $'folder\nabsolute\nrelative' ]]
}
@test "an archive on a file system without programs says so" {
    mkdir noexec
    # shellcheck disable=SC2016 # the variables are for the inner shell
    run -77 unshare --mount sh -euc 'mount -t tmpfs -o noexec none noexec && cd noexec && tar -xJf "$1"/softrdma-*.tar.xz
        exec python3 softrdma-*/bin/softrdma run --in uml -- true' - "$DIST"
    [[ $output == *'(is its file system mounted noexec?); unpack or install softrdma on another one' ]]
}

# run_wheel RELEASE: pip has no network.
run_wheel() {
    # shellcheck disable=SC2016 # $0 is for the inner shell
    expect_rping in_root "$1" sh -c 'python3 -m venv env && env/bin/pip --quiet --no-cache-dir install --no-index /run/dist/*.whl &&
        exec env/bin/softrdma run --hosts 2 -- sh -c "$0"' "$RPING"
}
@test "Debian 11: pip installs the wheel" { run_wheel bullseye; }
@test "Debian 12: pip installs the wheel" { run_wheel bookworm; }
@test "Debian 13: pip installs the wheel" { run_wheel trixie; }
@test "Debian sid: pip installs the wheel" { run_wheel sid; }
@test "Ubuntu 22.04: pip installs the wheel" { run_wheel jammy; }

# in_container RELEASE COMMAND...: in the root, in a container without network, capabilities and files to write but
# /tmp. The archive's files are in /opt/softrdma.
in_container() {
    podman --cgroup-manager cgroupfs --runtime "$runtime" run --rm --network none --read-only --cap-drop all \
        --security-opt no-new-privileges --user "$USER_ID" --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 \
        --volume "$PWD/unpacked:/opt/softrdma:ro" --rootfs "$ROOTS/$1" "${@:2}"
}
@test "the archive runs in a container that is permitted nothing" {
    type podman >/dev/null || skip 'podman is not installed'
    mkdir unpacked
    tar -xJf "$DIST"/softrdma-*.tar.xz -C unpacked --strip-components=1 --no-same-owner
    for runtime in crun runc ''; do # runc supports cgroups v1
        [[ $runtime ]] || skip "podman cannot run a container here: $(<error)"
        ! in_container trixie true 2>error || break
    done
    for release in bullseye bookworm trixie sid; do
        expect_rping in_container $release /opt/softrdma/bin/softrdma run --hosts 2 -- sh -c "$RPING"
    done
}

@test "softrdma version of the archive names kernel, patches and commit" {
    # shellcheck disable=SC2016
    run -0 --separate-stderr in_root trixie sh -c 'python3 -m tarfile -e /run/dist/softrdma-*.tar.xz . && softrdma-*/bin/softrdma version --json'
    jq -e --arg commit "$(git -C "$BATS_TEST_DIRNAME" rev-parse HEAD)" \
        '.commit == $commit and .kernel.is_pinned and (.kernel.patches | length > 0) and .kernel.missing_patches == []' <<<"$output"
}

@test "a Python that is too old is named" {
    # The program's words, by a Python whose version is another number.
    program=$BATS_TEST_TMPDIR/softrdma
    sed 's/^MIN_PYTHON = .*/MIN_PYTHON = (99, 9)/' "$BATS_TEST_DIRNAME/../../scripts/softrdma" >"$program"
    run -77 python3 "$program" --version
    [[ $output == *"is Python 3."*"softrdma needs 3.9 or newer"* ]]
}

# run_page_block RELEASE NUMBER: the files of the release are in the folder.
run_page_block() {
    run -0 in_root "$1" sh -eu -c "cp /run/dist/softrdma-*64.* .; $("$BATS_TEST_DIRNAME/../docs/page_block" 'From an archive' sh "$2" "$BATS_TEST_DIRNAME/../../docs/rdma-in-ci.md")"
    echo "$output"
    [[ $output == *PORT_ACTIVE* ]]
}
@test "docs/rdma-in-ci.md: the commands for the archive" {
    run_page_block bookworm 1
    [[ $(grep -c '^ping data' <<<"$output") == 5 ]]
}
@test "docs/rdma-in-ci.md: the commands for the wheel" { run_page_block bookworm 2; }
