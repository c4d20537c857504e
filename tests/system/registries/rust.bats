#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Crates of crates.io that wrap verbs: their own tests and examples, which `install` has compiled. registries.bash has the
# variables. Cases that are tagged pair run on two hosts, too, and those that are tagged iwarp on siw.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/registries.bash"

setup() {
    CRATES=$("$folder/install" --print rust)
    [[ -e $CRATES/installed ]] || skip 'the crates are not compiled: see the log of registries.install.rust'
    choose_verbs
}

# use_device_name NAME: for examples that have the name of their device in the source.
use_device_name() { rdma dev set "$SOFTRDMA_DEVICE" name "$1" && renamed=$1; }
teardown() { [[ -z ${renamed:-} ]] || rdma dev set "$renamed" name "$SOFTRDMA_DEVICE"; }

# run_tests CRATE COUNT [NAME...]: so many tests of the crate pass, without those of these names.
run_tests() {
    local program output count=0 skipped=() name
    for name in "${@:3}"; do skipped+=(--skip "$name"); done
    for program in "$CRATES/$1"/test-*; do
        [[ $program != */test-compiletest ]] || continue # it runs cargo
        output=$(cd "$BATS_TEST_TMPDIR" && timeout "$LIMIT" "$program" --test-threads=1 "${skipped[@]}" 2>&1) || {
            tail -n 40 <<<"$output"
            return 1
        }
        count=$((count + $(sed -nE 's/^test result: ok\. ([0-9]+) passed; 0 failed.*/\1/p' <<<"$output")))
    done
    [[ $count == "$2" ]] || {
        echo "$count tests have passed, not $2"
        return 1
    }
}

run_example() { # CRATE/NAME
    run timeout "$LIMIT" "$CRATES/$1"
    printf '%s\n' "$output"
}

@test "sideway: its 68 tests pass" {
    run_tests sideway 68
    expect_driver
}

@test "ibverbs: a QP sends a number to itself" {
    run_example ibverbs/loopback # asserts the number
    [[ $status == 0 && $output == *received* && $output == *sent* ]]
    expect_driver
}

@test "async-rdma: 50 of its tests pass" {
    # Not one of its allocator, without a device: it asserts that a lookup finds nothing, and the lookup that it finds.
    run_tests async-rdma 50 mr_allocator::tests::test_extent_hooks
    expect_driver
}

@test "async-rdma: server and client" {
    run_pair 5555 "$CRATES/async-rdma/server" "$CRATES/async-rdma/client" # they assert the data
    expect_output server '^server done'
    expect_output client '^\[1, 1, 1, 1, 2, 2, 2, 2\]$'
    expect_output client '^client done'
    expect_driver
}

# bats test_tags=iwarp
@test "rdma: its 8 tests pass" { run_tests rdma 8; }

@test "rrddmma: a message by RC and by UD, and a Write and Read" {
    use_device_name mlx5_0
    run_example rrddmma/local_rc_sendrecv
    [[ $status == 0 && $output == *'Hello, rrddmma!'* ]]
    run_example rrddmma/local_ud_sendrecv
    [[ $status == 0 && $output == *'Hello, rrddmma!'* ]]
    run_example rrddmma/loopback # asserts the data
    [[ $status == 0 && $output == *'(RDMA)'* ]]
    SOFTRDMA_DEVICE=mlx5_0 expect_driver
}

@test "ibverbs-rs connects no QP: it sets no GID" {
    use_device_name mlx5_0
    run_example ibverbs-rs/channel
    [[ $status != 0 && $output == *'Failed to set queue pair to Ready to Receive state (driver rejected params)'* ]]
}

# The client's side is in CLIENT, with @ for the server's address.
run_cm_pair() { # SERVER CLIENT
    READY='is_listening 7471' PORT=7471 run_server_client "$SERVER_ON $CRATES/$1" "$CRATES/${2//@/$(server_fact ADDRESS)}"
}

# bats test_tags=pair,iwarp
@test "rdma-sys: server and client" {
    run_cm_pair rdma-sys/server 'rdma-sys/client @ 7471'
    expect_output server '^rdma_server: recv msg : \[(1, ){15}1\]$'
    expect_output client '^rdma_client: recv msg : \[(1, ){15}1\]$'
    expect_driver
}

# bats test_tags=pair
@test "async-rdma: server and client connect by rdma_cm" {
    run_cm_pair async-rdma/cm_server 'async-rdma/cm_client @ 7471'
    expect_output server '^recv : \[(1, ){15}1\]$'
    expect_output client '^recv: \[(1, ){15}1\]$'
    expect_driver
}

# bats test_tags=pair
@test "sideway: rc_pingpong_split" {
    [[ $VERBS == coherdma ]] || skip "rxe's ibv_end_poll of rdma-core takes a completion twice"
    run_pair 18515 "$CRATES/sideway/rc_pingpong_split -d $(server_fact DEVICE) -g $(server_fact GID_INDEX)" \
        "$CRATES/sideway/rc_pingpong_split -d $SOFTRDMA_DEVICE -g $SOFTRDMA_GID_INDEX @"
    expect_output client '^1000 iters'
    expect_output server '^1000 iters'
    expect_driver
}
