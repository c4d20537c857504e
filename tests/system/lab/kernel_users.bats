#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The recipes of docs/kernel-users.md, unchanged, between two hosts with a device of $DRIVER.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/../lib/caller.bash"

DISK_BYTES=$((64 << 20))

# require_package NAME: skips without it.
require_package() {
    [[ $(dpkg-query -W -f '${db:Status-Abbrev}' "$1" 2>/dev/null) == ii* ]] || skip "$1 is not installed"
}
only_rxe() { [[ $DRIVER == rxe ]] || skip "$1"; }

# run_recipe FILE DIGESTS BYTES: runs it on host 1. Checks that it prints so many digests, which are equal, and, on
# rxe, which counts them, that so many bytes were sent by RDMA.
run_recipe() {
    # shellcheck disable=SC2016 # for the guest's shell
    run -0 softrdma run --in uml -q --driver "$DRIVER" --hosts 2 -- sh -ec '
        "$0"
        [ "$DRIVER" = siw ] || cat "/sys/class/infiniband/$SOFTRDMA_DEVICE/ports/1/hw_counters/sent_bytes"' \
        "$BATS_TEST_DIRNAME/../../../examples/kernel/$1"
    printf '%s\n' "$output"
    mapfile -t digests < <(grep -oE '\b[0-9a-f]{64}\b' <<<"$output")
    ((${#digests[@]} == $2))
    [[ $(printf '%s\n' "${digests[@]}" | sort -u | wc -l) == 1 ]]
    [[ $DRIVER == siw ]] || ((${lines[-1]} >= $3))
}

@test "NVMe: a disk of the other host stores and returns data" {
    require_package nvme-cli
    run_recipe nvme.sh 3 $DISK_BYTES
}
@test "NFS: a folder of the other host stores and returns data" {
    require_package nfs-kernel-server
    run_recipe nfs.sh 3 $DISK_BYTES
}
@test "SMB Direct: a share of the other host stores and returns data" {
    require_package cifs-utils
    run --separate-stderr /usr/bin/python3 "$BATS_TEST_DIRNAME/../../debian/ksmbd_root.py"
    [[ $status != 77 ]] || skip "$output"
    [[ $status == 0 ]]
    PATH=$output:$PATH run_recipe smb.sh 3 $DISK_BYTES
}
@test "iSER: a disk of the other host stores and returns data" {
    only_rxe 'a target listens by TCP, too, whose ports siw uses'
    require_package open-iscsi
    run_recipe iser.sh 2 $DISK_BYTES
}
@test "SRP: a disk of the other host stores and returns data" {
    only_rxe 'it is not defined for iWARP'
    run_recipe srp.sh 2 $DISK_BYTES
}
@test "RDS: the other host receives messages" {
    only_rxe 'it has no transport for iWARP'
    run_recipe rds.py 2 $((200 * 8192))
}
@test "SMC-R: the other host receives a stream" {
    only_rxe 'it is defined for RoCE'
    run_recipe smc.py 2 $((16 << 20))
}
