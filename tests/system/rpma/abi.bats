#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The ABI of librpma: that of the distribution's, with additions only.

bats_require_minimum_version 1.5.0

setup() {
    local libraries=("$PROGRAMS"/root/usr/lib/*/librpma.so.0)
    distribution=${libraries[0]} our_library=$BUILD/rpma/librpma.so.0
    [[ -e $distribution ]] || skip "there is no $PROGRAMS/root: see the log of rpma.programs.make_library"
}

@test "librpma has each symbol of the distribution's, in the same version" {
    abidiff --no-added-syms "$distribution" "$our_library"
}
@test "a symbol that is missing is noticed" {
    run ! abidiff --no-added-syms "$our_library" "$distribution"
    [[ $output == *rpma_coherdma_query_conn* ]]
}
