# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# shellcheck shell=bash
#
# Programs that run with the observer that counts.

source "${BASH_SOURCE[0]%/*}/../lib/lib.bash"

# observed FILE COMMAND...: a command that runs with the observer, which writes its counts to FILE.count.
observed() { echo "env COUNT_FILE=$BATS_TEST_TMPDIR/$1.count $BATS_TEST_DIRNAME/observed ${*:2}"; }

# expect_counts FILE NAME=COUNT...: so much was counted.
expect_counts() {
    local file=$BATS_TEST_TMPDIR/$1.count count result=0
    for count in "${@:2}"; do
        grep -qx "${count/=/ }" "$file" || result=1
    done
    ((result == 0)) || {
        echo "$1: expected ${*:2}, counted:"
        grep -v ' 0$' "$file"
        return 1
    }
}
# expect_all_destroyed FILE KIND...: as many objects as were created, and at least one.
expect_all_destroyed() {
    local file=$BATS_TEST_TMPDIR/$1.count kind count
    for kind in "${@:2}"; do
        count=$(sed -n "s/^$kind.created //p" "$file")
        ((count > 0))
        expect_counts "$1" "$kind.destroyed=$count"
    done
}
