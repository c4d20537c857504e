#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# What posting and reaping costs by our uDAPL, beside OFED's and verbs alone: instructions in user space,
# which no other work of the machine changes. OFED's provider needs 340 of them for a Write, and 1.33 is
# about what can be had in all: the table of dapl_costs.py shows where they are spent.
# Run by ci/stages: softrdma run --driver rxe|siw -- bats tests/system/dapl-costs.bats

bats_require_minimum_version 1.5.0

setup_file() {
    local status=0 table=$BATS_FILE_TMPDIR/table
    "$BATS_TEST_DIRNAME/../bench/dapl_costs.py" --driver "${SOFTRDMA_DEVICE%%[0-9]*}" --json >"$table" 2>"$table.why" || status=$?
    ((status != 77)) || skip "$(<"$table.why")"
    ((status == 0)) || cat "$table.why"
    return "$status"
}

# every NAME LIMIT: of each kind of work it is no more than this.
every() {
    jq -r --arg of "$1" '.work | to_entries[] | "# \(.key): \($of) \(.value[$of])"' "$BATS_FILE_TMPDIR/table" | tee /dev/fd/3
    jq -e --arg of "$1" "[.work[][\$of]] | length == 2 and all(. <= $2)" "$BATS_FILE_TMPDIR/table"
}

@test "the provider needs a third of the instructions of OFED's" { every "provider's share, of OFED's" 0.34; }
@test "post and reap need at most 1.45 of those of verbs alone" { every 'in all, of verbs alone' 1.45; }

@test "DAT 1.2 needs at most 25 instructions more than 2.0 to post" {
    local status=0 table=$BATS_TEST_TMPDIR/table
    "$BATS_TEST_DIRNAME/../bench/dat1_costs.py" --driver "${SOFTRDMA_DEVICE%%[0-9]*}" --json >"$table" 2>"$table.why" || status=$?
    ((status != 77)) || skip "$(<"$table.why")"
    ((status == 0)) || { cat "$table.why"; false; }
    jq -r 'to_entries[] | "# \(.key): \(.value["2.0"]) and \(.value.more) more"' "$table" | tee /dev/fd/3
    # What it adds to a sync is a matter of its segments, not of the lines in them.
    jq -e '.["sync 8 bytes"].more == .["sync 8192 bytes"].more' "$table"
    jq -e '[to_entries[] | select(.key | startswith("post")) | .value.more] | length == 4 and all(. > 0 and . <= 25)' "$table"
}
