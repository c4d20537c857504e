#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Programs of Debian that tests/system/provider/battery does not have. registries.bash has the variables.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/registries.bash"

setup() { choose_verbs; }

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
