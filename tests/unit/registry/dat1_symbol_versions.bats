#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The symbol versions of libdat.so.1: DAT_1.2 of OFED, and that of our additions.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_DIRNAME/../../.." || return 1
    folder=$BUILD/udapl/registry
    library=$folder/libdat.so.1
    functions=tests/data/dat/dat12-functions.txt
    symbols=$BATS_TEST_TMPDIR/symbols
    # Name, version and address of each function.
    readelf -W --dyn-syms "$library" |
        awk '$4 == "FUNC" && $7 != "UND" { sub("@@?", " ", $8); print $8, $2 }' | sort >"$symbols"
}

functions_of_version() { awk -v version="$1" '$2 == version { print $1, $3 }' "$symbols"; }

@test "libdat: DAT_1.2 has 73 functions" {
    diff -u --label data <(grep -o '^dats\?_[a-z_]*' "$functions" | sort) \
        --label DAT_1.2 <(functions_of_version DAT_1.2 | cut -d ' ' -f 1)
    [[ $(functions_of_version DAT_1.2 | wc -l) == 73 && $(wc -l <"$symbols") == 76 ]]
}
@test "libdat: functions beyond uDAPL 1.2 are in COHERDMA_1.0" {
    [[ $(functions_of_version COHERDMA_1.0 | cut -d ' ' -f 1 | paste -sd ' ') == 'dat_coherdma_post_atomic_write dat_coherdma_post_flush dat_coherdma_query_methods' ]]
}
@test "libdat: DAT_1.2 is the default version" {
    [[ $(readelf -W --dyn-syms "$library" | grep -c ' dats\?_[a-z_]*@@DAT_1\.2$') == 73 ]]
}
