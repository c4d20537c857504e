#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# What each call of our plugin costs beside the stock provider's: instructions and system calls, which
# are counted, so no other work of the machine changes them. Times are nowhere in here.
# Run by ci/stages: softrdma run --driver rxe -- bats tests/system/costs.bats

bats_require_minimum_version 1.5.0

setup_file() {
    local status=0 table=$BATS_FILE_TMPDIR/table
    "$BATS_TEST_DIRNAME/../bench/costs.py" --json >"$table" 2>"$table.why" || status=$?
    ((status != 77)) || skip "$(<"$table.why")"
    ((status == 0)) || cat "$table.why"
    return "$status"
}

# every CONDITION: true of each call; those of which it is not are named.
every() {
    local odd
    odd=$(jq -c ".[] | select(($1) | not)" "$BATS_FILE_TMPDIR/table")
    [[ -z $odd ]] || {
        echo "$odd"
        return 1
    }
}

@test "no call makes more system calls than the stock provider's" {
    every '."system calls" | .ours <= .stock'
}
@test "a list makes one system call, a receive and polling none" {
    every 'if .call | test("^post a (write|message), 1 ") then ."system calls".ours == 1
           elif .call | test("^post a (write|message), 16 ") then ."system calls".ours == 1 / 16
           elif .call | test("^arm") then ."system calls".ours <= 1
           else ."system calls".ours == 0 end'
}
@test "no call costs twice the instructions of the stock provider's" {
    jq -r '.[] | "# \(.call): stock \(.instructions.stock), ours \(.instructions.ours)"' "$BATS_FILE_TMPDIR/table" >&3
    every '.instructions | .ours < 2 * .stock'
}
@test "to arm a queue costs a third" {
    every '(.call | startswith("arm") | not) or (.instructions | .ours * 3 < .stock)'
}
