#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Instructions in user space that an RDMA Write, a flush and the completion take: our_count at most those of the
# distribution's librpma, over the same provider. Other work of the machine does not change them.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"

ROUNDS=100

# count FOLDER: the instructions of all rounds, with the librpma in the folder.
count() {
    local log=$BATS_TEST_TMPDIR/callgrind.log
    LD_LIBRARY_PATH=$1:$BUILD/ibverbs-glue LD_BIND_NOW=1 valgrind --tool=callgrind --callgrind-out-file=/dev/null \
        --toggle-collect=measured_rounds "$BUILD/tests/system/rpma/write_and_flush" "$SOFTRDMA_ADDRESS" $ROUNDS \
        >"$log" 2>&1 || { cat "$log" >&2 && return 1; }
    sed -n 's/^==[0-9]*== Collected : //p' "$log"
}

@test "a write, a flush and the completion take at most the instructions of the distribution's librpma" {
    type valgrind >/dev/null || skip 'valgrind is not installed'
    local distribution=("$PROGRAMS"/root/usr/lib/*/librpma.so.0) distribution_count our_count
    [[ -e ${distribution[0]} ]] || skip "there is no $PROGRAMS/root: see the log of rpma.programs.make_library"
    distribution_count=$(count "${distribution[0]%/*}")
    our_count=$(count "$BUILD/rpma")
    echo "# per round: ours $((our_count / ROUNDS)), the distribution's $((distribution_count / ROUNDS))" >&3
    ((distribution_count > ROUNDS * 100 && our_count > ROUNDS * 100 && our_count <= distribution_count))
}
