#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Instructions in user space that our uDAPL takes to post and reap, relative to OFED's and to verbs alone. Other
# work of the machine does not change them. OFED's provider takes 340 for an RDMA Write; dapl_costs.py prints where
# they are spent.

bats_require_minimum_version 1.5.0

setup_file() {
    local status=0 table=$BATS_FILE_TMPDIR/table
    "$BATS_TEST_DIRNAME/../../bench/dapl_costs.py" --driver "${SOFTRDMA_DEVICE%%[0-9]*}" --json >"$table" 2>"$table.why" || status=$?
    ((status != 77)) || skip "$(<"$table.why")"
    ((status == 0)) || cat "$table.why"
    return "$status"
}

# expect_at_most NAME LIMIT: of each kind of work.
expect_at_most() {
    jq -r --arg name "$1" '.work | to_entries[] | "# \(.key): \($name) \(.value[$name])"' "$BATS_FILE_TMPDIR/table" | tee /dev/fd/3
    jq -e --arg name "$1" "[.work[][\$name]] | length == 2 and all(. <= $2)" "$BATS_FILE_TMPDIR/table"
}

@test "our provider takes at most 0.58 of the instructions of OFED's" { expect_at_most "provider's share, of OFED's" 0.58; }
# Of these a call takes four to six to count itself as a user of its object.
# On rxe the provider's part of a Send and its receive is so small that ours is 0.66 of it.
@test "post and reap take at most 1.67 of the instructions of verbs alone" { expect_at_most 'in all, of verbs alone' 1.67; }

@test "DAT 1.2 takes at most 80 instructions more than 2.0 to post" {
    local status=0 table=$BATS_TEST_TMPDIR/table
    "$BATS_TEST_DIRNAME/../../bench/dat1_costs.py" --driver "${SOFTRDMA_DEVICE%%[0-9]*}" --json >"$table" 2>"$table.why" || status=$?
    ((status != 77)) || skip "$(<"$table.why")"
    ((status == 0)) || { cat "$table.why"; false; }
    jq -r 'to_entries[] | "# \(.key): \(.value["2.0"]) and \(.value.more) more"' "$table" | tee /dev/fd/3
    # A sync takes more for each segment, not for each cache line.
    jq -e '.["sync 8 bytes"].more == .["sync 8192 bytes"].more' "$table"
    jq -e '[to_entries[] | select(.key | startswith("post")) | .value.more] | length == 4 and all(. > 0 and . <= 80)' "$table"
}
