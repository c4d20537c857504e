#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# unit.dapl.local_sync with the Provider built without its syncs: these cases, and no others, fail.

bats_require_minimum_version 1.5.0

# expect_failed SYNC CASE...: cmocka's exit status is the number of failed cases, and each has failed by an assertion.
expect_failed() {
    local program=${BUILD:-$PWD/build/release}/tests/system/udapl/without_sync/local_sync_test_without_$1 failed
    shift
    CMOCKA_MESSAGE_OUTPUT=TAP run "-$#" "$program"
    echo "$output"
    mapfile -t failed < <(sed -n 's/^not ok [0-9]* - //p' <<<"$output")
    [[ ${failed[*]} == "$*" ]]
    (($(grep -c 'local_sync_test\.cpp:[0-9]*: error: Failure!' <<<"$output") == $#))
}

@test "cases that fail without the syncs before posts and before completions" {
    expect_failed local_sync sources_written_back_before_post receive_synced_before_post_and_before_completion \
        rdma_read_synced_before_post_and_before_completion unsignaled_rdma_reads_synced_with_later_completion \
        atomic_result_synced_before_completion flushed_receives_synced_whole segments_outside_lmrs_not_synced \
        zero_based_address_translated several_segments_synced_in_one_call \
        srq_receive_synced_before_post_and_before_completion
}
@test "cases that fail without writing back before memory is deregistered" {
    expect_failed writeback pages_that_are_still_mapped_are_written_back lmr_free_writes_pages_back \
        abrupt_close_writes_pages_back exit_writes_pages_of_open_ia_back
}
