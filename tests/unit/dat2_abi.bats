#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# libdat2.so.2 beside the stock one: what it has more is all that there may be.

bats_require_minimum_version 1.5.0

setup() {
    ours=$BUILD/release/udapl/registry/libdat2.so.2
    stock=$(ldconfig -p | awk '$1 == "libdat2.so.2" && !seen++ { print $NF }')
    command -v abidiff >/dev/null || skip 'no abidiff'
    [[ -e $stock ]] || skip 'no stock libdat2'
    [[ $(realpath "$stock") != "$(realpath "$ours")" ]]
}

@test "libdat2: nothing of the stock one is gone or changed" {
    run -0 abidiff --no-added-syms "$stock" "$ours"
}
@test "libdat2: the ten functions that OFED declares and has not, and no others, are new" {
    run -4 abidiff "$stock" "$ours"
    echo "$output"
    [[ $output == 'Functions changes summary: 0 Removed, 0 Changed, 10 Added functions'* ]]
    [[ $(grep -c '@@COHERDMA_2.0}$' <<<"$output") == 10 ]]
}
