#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Instructions and system calls of each call of our plugin and of the stock provider. They are counted: no
# other work of the machine changes them.

bats_require_minimum_version 1.5.0

setup_file() {
    local status=0 table=$BATS_FILE_TMPDIR/table
    "$BATS_TEST_DIRNAME/../../bench/costs.py" --json --providers stock coherdma >"$table" 2>"$table.why" || status=$?
    ((status != 77)) || skip "$(<"$table.why")"
    ((status == 0)) || cat "$table.why"
    return "$status"
}

# expect_all CONDITION: of each call; prints the others.
expect_all() {
    local others
    others=$(jq -c ".[] | select(($1) | not)" "$BATS_FILE_TMPDIR/table")
    [[ -z $others ]] || {
        echo "$others"
        return 1
    }
}

@test "no call makes more system calls than with the stock provider" {
    expect_all '."system calls" | .coherdma <= .stock'
}
@test "a posted list makes one system call, a receive and polling none" {
    expect_all 'if .call | test("^post a (write|message), 1 ") then ."system calls".coherdma == 1
           elif .call | test("^post a (write|message), 16 ") then ."system calls".coherdma == 1 / 16
           elif .call | test("^arm") then ."system calls".coherdma <= 1
           else ."system calls".coherdma == 0 end'
}
@test "no call takes twice the instructions of the stock provider" {
    jq -r '.[] | "# \(.call): stock \(.instructions.stock), coherdma \(.instructions.coherdma)"' "$BATS_FILE_TMPDIR/table" >&3
    expect_all '.instructions | .coherdma < 2 * .stock'
}
@test "ibv_req_notify_cq takes a third of the stock provider's instructions" {
    expect_all '(.call | startswith("arm") | not) or (.instructions | .coherdma * 3 < .stock)'
}
