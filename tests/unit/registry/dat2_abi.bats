#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The ABI of libdat2.so.2 compared with that of OFED's libdat2: functions are added only.

bats_require_minimum_version 1.5.0

setup() {
    library=$BUILD/udapl/registry/libdat2.so.2
    stock=$(ldconfig -p | awk '$1 == "libdat2.so.2" && !seen++ { print $NF }')
    command -v abidiff >/dev/null || skip 'no abidiff'
    [[ -e $stock ]] || skip 'no stock libdat2'
    [[ $(realpath "$stock") != "$(realpath "$library")" ]]
}

@test "libdat2: ABI of OFED's library is unchanged" {
    run -0 abidiff --no-added-syms "$stock" "$library"
}
@test "libdat2: adds only the ten functions that OFED declares" {
    run -4 abidiff "$stock" "$library"
    echo "$output"
    [[ $output == 'Functions changes summary: 0 Removed, 0 Changed, 10 Added functions'* ]]
    [[ $(grep -c '@@COHERDMA_2.0}$' <<<"$output") == 10 ]]
}
