#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The two version nodes of libdat.so.1: DAT_1.2 as OFED's has it, and SUNW_1.1 as Solaris' has.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_DIRNAME/../.." || return 1
    folder=$BUILD/release/udapl/registry
    library=$folder/libdat.so.1
    functions=tests/data/dat/dat12-functions.txt
    symbols=$BATS_TEST_TMPDIR/symbols
    # Name, node and address of each function.
    readelf -W --dyn-syms "$library" |
        awk '$4 == "FUNC" && $7 != "UND" { sub("@@?", " ", $8); print $8, $2 }' | sort >"$symbols"
}

of_node() { awk -v node="$1" '$2 == node { print $1, $3 }' "$symbols"; }

@test "libdat: OFED's node has the 73 functions of 1.2, and Solaris' has the 72 that it had" {
    diff -u --label data <(grep -o '^dats\?_[a-z_]*' "$functions" | sort) \
        --label DAT_1.2 <(of_node DAT_1.2 | cut -d ' ' -f 1)
    [[ $(of_node DAT_1.2 | wc -l) == 73 && $(wc -l <"$symbols") == 148 ]]
    diff -u <(of_node DAT_1.2 | grep -v '^dats_') <(of_node SUNW_1.1)
}
@test "libdat: what uDAPL 1.2 has not is in a node of its own" {
    [[ $(of_node COHERDMA_1.0 | cut -d ' ' -f 1 | paste -sd ' ') == 'dat_coherdma_post_atomic_write dat_coherdma_post_flush dat_coherdma_query_ways' ]]
}
@test "libdat: programs are linked to OFED's node" {
    [[ $(readelf -W --dyn-syms "$library" | grep -c ' dats\?_[a-z_]*@@DAT_1\.2$') == 73 ]]
    [[ $(readelf -W --dyn-syms "$library") != *@@SUNW* ]]
}
@test "libdat: a program that wants functions of Solaris' node has all of them" {
    cd "$BATS_TEST_TMPDIR"
    {
        echo '#include <stdio.h>'
        of_node SUNW_1.1 | while read -r name _; do
            echo "__asm__(\".symver $name, $name@SUNW_1.1\"); extern int $name();"
        done
        echo 'int main(void) { int (*all[])() = {'
        of_node SUNW_1.1 | sed 's/ .*/,/'
        echo '}; const char *type = "", *more = ""; unsigned long place = 0;'
        echo 'while (place < sizeof all / sizeof *all && all[place]) ++place;'
        echo 'dat_strerror(0x80050000, &type, &more); printf("%lu %s", place, type); return 0; }'
    } >wants.c
    gcc -std=gnu11 wants.c -Wl,-z,now -L"$folder" -ldat -o wants 2>&1
    [[ $(readelf -W --dyn-syms wants | grep -c 'UND dat_.*@SUNW_1\.1') == 72 ]]
    [[ $(readelf -W --dyn-syms wants) != *DAT_1.2* ]]
    LD_LIBRARY_PATH=$folder run -0 ./wants
    [[ $output == '72 DAT_INVALID_HANDLE' ]]
}
