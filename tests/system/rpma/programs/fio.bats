#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# fio's engines librpma_apm, which writes, reads and flushes by RDMA, and librpma_gpspm, which asks the server to flush.
# The server's memory is ordinary. What runs with what: programs.bash.

bats_require_minimum_version 1.8.0
source "$BATS_TEST_DIRNAME/programs.bash"

BLOCKS=256 # of 4096 bytes: the size of a server's memory
common=(--create_serialize=0 --thread --kb_base=1000 --bs=4KiB)

setup() {
    require fio
    prepare fio
}
teardown() { kill_all; }

# start_fio_server ENGINE JOBS [OPTION...]
start_fio_server() {
    start_server "$2" "$PROGRAMS/fio" --name=server --ioengine="librpma_$1_server" --serverip="$ADDRESS" --port=$PORT \
        "${common[@]}" --filename=malloc --size=1MiB --numjobs="$2" "${@:3}"
}
# start_fio_client ENGINE JOBS [OPTION...]
start_fio_client() {
    start_client "$PROGRAMS/fio" --name=client --ioengine="librpma_$1_client" --serverip="$ADDRESS" --port=$PORT \
        "${common[@]}" --numjobs="$2" --group_reporting --verify_state_save=0 \
        --output-format=json --output="$out/client.json" "${@:3}"
}
# run_apm JOBS OPTION...: of the client.
run_apm() {
    start_fio_server apm "$1"
    start_fio_client apm "$@"
    end_client 1 0
    end_server 0
    expect_served
}
# run_gpspm POLLING OPTION...: the client ends its server.
run_gpspm() {
    start_fio_server gpspm 1 --iodepth=8 --time_based --runtime=365d --busy_wait_polling="$1"
    start_fio_client gpspm 1 "${@:2}"
    end_client 1 0
    end_server 0
    expect_served
}
# expect_sum EXPRESSION TEXT: of the jobs, by jq. The engine's notes are before the JSON.
expect_sum() {
    local value
    value=$(sed -n '/^{/,$p' "$out/client.json" | jq -r ".jobs | $1")
    [[ $value == "$2" ]] || {
        cat "$out/client.json"
        fail_with_output "fio: $1 is $value, not $2"
    }
}
expect_blocks() { # WRITTEN READ: by all jobs, without an error
    expect_sum 'map(.error) | add' 0
    expect_sum 'map(.write.total_ios) | add' "$1"
    expect_sum 'map(.read.total_ios) | add' "$2"
}

@test "librpma_apm: sequential writes in batches, read again and verified" {
    run_apm 1 --rw=write --iodepth=16 --iodepth_batch_submit=4 --verify=crc32c
    expect_blocks $BLOCKS $BLOCKS
}
@test "librpma_apm: random writes, read again and verified" {
    run_apm 1 --rw=randwrite --iodepth=16 --verify=crc32c
    expect_blocks $BLOCKS $BLOCKS
}
@test "librpma_apm: one write at a time, read again and verified" {
    run_apm 1 --rw=write --sync=1 --verify=crc32c
    expect_blocks $BLOCKS $BLOCKS
}
@test "librpma_apm: random blocks of 1 to 64 KiB, read again and verified" {
    run_apm 1 --rw=randwrite --bsrange=1KiB-64KiB --iodepth=4 --verify=crc32c
    expect_sum 'map(.error) | add' 0
    expect_sum '.[0].write.io_bytes' $((BLOCKS * 4096))
    expect_sum '.[0].read.io_bytes' $((BLOCKS * 4096))
}
@test "librpma_apm: four jobs, each with its connection" {
    run_apm 4 --rw=randwrite --iodepth=8 --verify=crc32c
    expect_blocks $((4 * BLOCKS)) $((4 * BLOCKS))
}
@test "librpma_apm: reads" {
    run_apm 1 --rw=read --iodepth=16 --iodepth_batch_submit=4
    expect_blocks 0 $BLOCKS
}
@test "librpma_apm: random reads, one at a time" {
    run_apm 1 --rw=randread --sync=1
    expect_blocks 0 $BLOCKS
}
@test "librpma_apm: reads and writes mixed" {
    run_apm 1 --rw=randrw --iodepth=16
    expect_sum 'map(.error) | add' 0
    expect_sum '.[0].read.total_ios > 0 and .[0].write.total_ios > 0' true
    expect_sum '.[0].read.total_ios + .[0].write.total_ios' $BLOCKS
}
@test "librpma_apm: verification fails on memory that was not written" {
    start_fio_server apm 1
    start_fio_client apm 1 --rw=read --verify=crc32c --verify_only
    end_client 1 1
    end_server 0
    expect client1 'verify: bad magic header'
    expect_sum '.[0].read.total_ios > 0' true
    expect_served
}
@test "librpma_gpspm: writes in batches, the server polls" {
    run_gpspm 1 --rw=write --iodepth=8 --iodepth_batch_submit=4
    expect_blocks $BLOCKS 0
}
@test "librpma_gpspm: random writes, one at a time, the server waits for events" {
    run_gpspm 0 --rw=randwrite --sync=1
    expect_blocks $BLOCKS 0
}
