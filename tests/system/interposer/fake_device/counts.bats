#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# What the observer counts of a program that uses the fake device is what the program did.

bats_require_minimum_version 1.5.0

@test "the observer counts what the program did" {
    local programs=$BUILD/tests/system/interposer lines
    RDMAV_DRIVERS=$programs/fake_provider/libfake COUNT_FILE=$BATS_TEST_TMPDIR/counted \
        TALLY_FILE=$BATS_TEST_TMPDIR/done "$BATS_TEST_DIRNAME/../observed" "$programs/fake_device/fake_device" 2>&1 | tee "$BATS_TEST_TMPDIR/printed"
    [[ $(grep -c 'requests of QPs that this program creates by functions of the driver are not observed' "$BATS_TEST_TMPDIR/printed") == 1 ]]
    # Each of the program's lines is one of the observer's.
    lines=$(grep -vxFf "$BATS_TEST_TMPDIR/counted" "$BATS_TEST_TMPDIR/done") || return 0
    echo "the program did, and the observer did not count:"
    echo "$lines"
    cat "$BATS_TEST_TMPDIR/counted"
    return 1
}
