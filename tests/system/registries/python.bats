#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Programs of Python's index: each byte that they transfer is compared. registries.bash has the variables.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/registries.bash"

setup() {
    require_environment
    choose_verbs
}

# use_system_libibverbs: NIXL's package has a libibverbs that finds no driver of the system (docs/registries.md). This
# folder has the system's in its place.
use_system_libibverbs() {
    local bundled
    bundled=$(basename "$SITE"/nixl_cu12.libs/libibverbs-*)
    mkdir -p "$BATS_TEST_TMPDIR/system"
    ln -s "$(ldconfig -p | awk '/libibverbs.so.1 / { print $NF; exit }')" "$BATS_TEST_TMPDIR/system/$bundled"
    export LD_LIBRARY_PATH=$BATS_TEST_TMPDIR/system
    # shellcheck disable=SC2086 # words; the folder may be one that the hosts share
    [[ -z $SERVER_ON ]] || $SERVER_ON sh -c "mkdir -p ${LD_LIBRARY_PATH@Q} &&
        ln -sf $(readlink "$LD_LIBRARY_PATH/$bundled") $LD_LIBRARY_PATH/$bundled"
}

transfer() { # ENGINE
    run_pair 7600 "$PYTHON $examples/transfer_engine.py $1 serve" "$PYTHON $examples/transfer_engine.py $1 copy @"
}

expect_transfer() {
    expect_output client '^written: 8388608 bytes, the SHA-256 is right'
    expect_output client '^read: 8388608 bytes, the SHA-256 is right'
    expect_output client "^$SOFTRDMA_DEVICE has sent [0-9]{4,} packets"
}

@test "Mooncake's transfer engine writes and reads 8 MiB" {
    transfer mooncake
    expect_transfer
    expect_driver
}

@test "NIXL writes and reads 8 MiB" {
    use_system_libibverbs
    export UCX_TLS=ib # on one host UCX prefers shared memory
    transfer nixl
    expect_transfer
    expect_driver
}

@test "NIXL's own libibverbs finds no device" {
    run transfer nixl
    [[ $status != 0 ]]
    expect_output client '^read: 8388608 bytes, the SHA-256 is right'
    expect_output client '^0 packets by RDMA'
}

@test "InfiniStore keeps and returns 4 MiB in blocks of 64 KiB" {
    run_with_server 9808 "$PYTHON -m infinistore.server --dev-name $(server_fact DEVICE) --link-type Ethernet
        --service-port 9234 --manage-port 9808 --prealloc-size 1" "$PYTHON $folder/infinistore_client.py @"
    expect_output client '^read from the server: 4194304 bytes, SHA-256 as sent'
    expect_driver
}

# run_mpi OPTION...: mpi_verify.py in two processes, each on its host if there are two. Sets output.
run_mpi() {
    local agent=/run/registries_rsh host hosts='--host localhost:2' variables='-x VERBS_LOG_LEVEL -x VERBS_LOG_FILE'
    if [[ -n $SERVER_ON ]]; then
        for host in 1 2; do # each host's daemon looks for the agent
            on $host tee $agent <<<$'#!/bin/sh\nhost=${1#softrdma-}; shift; exec on "$host" sh -c "$*"' >&2
            on $host chmod +x $agent
        done
        hosts="--host softrdma-1,softrdma-2 --prtemca plm_ssh_agent $agent"
    fi
    [[ -z ${RDMAV_DRIVERS:-} ]] || variables+=' -x RDMAV_DRIVERS'
    # shellcheck disable=SC2086 # words; the folder may be one that the hosts share
    run timeout "$LIMIT" env PATH="$ENVIRONMENT/bin:$PATH" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
        PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
        mpirun -n 2 $hosts $variables "$@" "$PYTHON" "$folder/mpi_verify.py"
    printf '%s\n' "$output"
    [[ $status == 0 && $(grep -c '^rank . of 2: 15952851 bytes as sent' <<<"$output") == 2 ]]
}

@test "mpi4py with the index's Open MPI verifies every byte, over UCX" {
    run_mpi --mca pml ucx -x UCX_TLS=ib,self -x UCX_LOG_LEVEL=info
    [[ $output == *"Version 1.20.1 (loaded from $ENVIRONMENT/"* && $output == *rc_verbs/$SOFTRDMA_DEVICE:1* ]]
    expect_driver
}

# bats test_tags=iwarp
@test "mpi4py with the index's Open MPI verifies every byte, over libfabric" {
    run_mpi --mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include 'verbs;ofi_rxm' --mca osc ^ucx
    expect_driver
}

@test "UCX of libucx-cu12 has no verbs transport" {
    run -0 env LD_LIBRARY_PATH="$SITE/libucx/lib" "$SITE/libucx/bin/ucx_info" -v
    [[ $output == *--without-verbs* ]]
}
