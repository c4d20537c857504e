#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The images, containers and pods of docs/rdma-in-ci.md, unchanged, by podman on this machine. $PACKAGES is a folder of coherdma's
# packages for Debian 12, with the user-mode kernel.

bats_require_minimum_version 1.5.0
page=$BATS_TEST_DIRNAME/../../../docs/rdma-in-ci.md

setup_file() {
    [[ $(id -u) == 0 ]] || skip 'only root can make the Debian 12 of the containers'
    folder=$(mktemp -d "${TMPDIR:-/tmp}/docs_examples.XXXXXX")
    mkdir "$folder/networks"
    # The limits: on some machines root cannot raise them.
    cat >"$folder/containers.conf" <<END
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
[network]
network_config_dir = "$folder/networks"
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
END
    cat >"$folder/storage.conf" <<END
[storage]
driver = "overlay"
graphroot = "$folder/images"
runroot = "$folder/run"
END
    export folder CONTAINERS_CONF=$folder/containers.conf CONTAINERS_STORAGE_CONF=$folder/storage.conf
    # The same packages as in the image that Debian publishes.
    mmdebstrap --quiet --variant=minbase bookworm - | podman import --quiet - docker.io/library/debian:12
    # A source tree with packages in the folder that the page names.
    mkdir -p "$folder/source/build/packages"
    cp -r "$BATS_TEST_DIRNAME/../../../containers" "$folder/source"
    cp -r "$PACKAGES" "$folder/source/build/packages/bookworm-amd64"
}
teardown_file() {
    podman rm --all --force --time 0 >"$BATS_FILE_TMPDIR/rm" 2>&1 || cat "$BATS_FILE_TMPDIR/rm"
    umount "$folder/images/overlay" 2>/dev/null || true # podman may have unmounted it
    rm -rf "$folder"
}

block() { "$BATS_TEST_DIRNAME/../../docs/page_block" "$1" "$2" "${3:-1}" "$page"; } # HEADING LANGUAGE [N]
# run_block HEADING [N]: runs a block of sh; the first command that fails ends it.
run_block() {
    cd "$folder/source" || return
    block "$1" sh "${2:-1}" >"$BATS_TEST_TMPDIR/block"
    run bash -eo pipefail "$BATS_TEST_TMPDIR/block" 3>&-
    tail -n 30 <<<"$output"
    [[ $status == 0 ]]
}

@test "An image: the images are built" {
    run_block 'An image'
    podman images --format '# {{.Repository}} {{.Size}}' >&3
}

@test "An image: programs run in the image for running" {
    run_block 'An image' 2
    [[ $output == *'hca_id:'*rxe0*PORT_ACTIVE* && $output == *'all data right'* ]]
    # The doctor fails in a container without a device.
    run -0 podman run --rm coherdma sh -c 'id; coherdma doctor || true'
    [[ ${lines[0]} == 'uid=1000(rdma) '*'(rdma)'* && $output == *'This is a container'*softrdma* ]]
}

@test "An image: a program builds in the image for development" {
    run_block 'An image' 3
    [[ $output == *'all letters have arrived'* ]]
}

@test "Two containers: rping verifies 5 rounds between them" {
    run_block 'Two containers, RDMA between them'
    [[ $(grep -c '^ping data' <<<"$output") == 5 ]]
}

@test "Kubernetes: the pod runs to its end" {
    block Kubernetes yaml >"$BATS_TEST_TMPDIR/pod.yaml"
    run podman play kube "$BATS_TEST_TMPDIR/pod.yaml" 3>&-
    printf '%s\n' "$output"
    [[ $status == 0 ]]
    [[ $(podman wait rdma-test-test) == 0 ]]
    run -0 podman logs rdma-test-test
    [[ $(grep -c PORT_ACTIVE <<<"$output") == 2 ]]
    podman play kube --down "$BATS_TEST_TMPDIR/pod.yaml"
}
