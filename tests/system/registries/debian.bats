#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Programs of Debian that tests/system/provider/battery does not have. registries.bash has the variables.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/registries.bash"

setup() { choose_verbs; }

# require_program NAME: FOLDER is what install_debian has made of it.
require_program() {
    FOLDER=$BUILD/registries/$1
    [[ -e $FOLDER ]] || skip "$1 is not there: see the log of registries.install.debian"
}

sum_of() { awk -v "file=$1" '$2 == file { print $1 }' "$BATS_TEST_TMPDIR/client.out"; } # FILE: its SHA-256

# expect_copy: the client has read what it has written. Sets written, the SHA-256.
expect_copy() {
    written=$(sum_of data)
    [[ $written =~ ^[0-9a-f]{64}$ && $(sum_of back) == "$written" ]]
}

migrate() { # [OPTION]
    [[ -x $(type -P qemu-system-x86_64) ]] || skip 'qemu-system-x86 is not installed'
    # shellcheck disable=SC2086 # words
    run timeout "$LIMIT" "$folder/qemu_migrate.py" "$@" "$HOST2" $SERVER_ON
    printf '%s\n' "$output"
    [[ $status == 0 && ${lines[-1]} == 'migrated: 25165824 bytes as on the source'* ]]
    expect_driver
}

@test "QEMU migrates a running machine by RDMA" { migrate; }
@test "QEMU migrates a running machine by RDMA, and registers all memory at once" { migrate --pin; }

@test "Valkey stores and returns 2 MB by RDMA" {
    [[ $SOFTRDMA_DEVICE == rxe* ]] || skip 'Valkey writes with immediate data, which iWARP lacks'
    require_program valkey
    READY='is_listening 6380' run_with_server 6380 "$folder/valkey_key $FOLDER serve $(server_fact ADDRESS)" \
        "$folder/valkey_key $FOLDER copy @"
    expect_output client '^OK$'
    expect_copy
    expect_output client '^"SET","[0-9.]+",'
    expect_output client '^"GET","[0-9.]+",'
    expect_driver
}

@test "a disk of tgt stores and returns 8 MiB for QEMU by iSER" {
    require_program iser
    READY='has_printed server target.is.ready' run_with_server 3260 "$folder/iser_disk $FOLDER target" \
        "$folder/iser_disk $FOLDER copy @"
    expect_output client '^32$' # chunks
    expect_copy
    # shellcheck disable=SC2086 # words
    [[ $($SERVER_ON sha256sum /run/disk) == "$written "* ]]
    expect_driver
}

@test "Ceph stores and returns an object of 8 MiB by RDMA" {
    [[ $SOFTRDMA_DEVICE == rxe* ]] || skip 'on siw a command gets no answer: docs/registries.md'
    require_program ceph
    # shellcheck disable=SC2016 # the client's shell expands it
    READY='has_printed server ^key:' run_with_server 6789 "$folder/ceph_object $FOLDER serve" \
        "$folder/ceph_object $FOLDER copy @ \$(sed -n 's/^key: //p' $BATS_TEST_TMPDIR/server.out)"
    expect_copy
    expect_driver
}
