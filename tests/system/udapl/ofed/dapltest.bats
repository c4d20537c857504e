#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# dapltest's transactions and performance tests. What runs with what: ofed.bash.

bats_require_minimum_version 1.8.0
source "$BATS_TEST_DIRNAME/dapltest.bash"

setup() { prepare "$BATS_TEST_TMPDIR"; }
teardown() { end_server; }

sends=(client SR 4096 2 server SR 4096 2)
writes=(client RW 4096 1 server RW 4096 1 client SR 256 1 server SR 256 1)
reads=(client RR 4096 1 server RR 4096 1 client SR 256 1 server SR 256 1)
mixed=(client RW 4096 2 server RR 8192 1 client SR 1024 3 server SR 1024 3 server RW 256 1 client RR 256 1)
in_segments=(client SR 256 1 server RR 1024 3 client RW 1024 1 server SR 256 1)

# bats test_tags=brief
@test "dapltest -T T: Sends" { run_with_known_faults run_transaction '-i 200' "${sends[@]}"; }
# bats test_tags=brief, gate
@test "dapltest -T T -V: Sends, verified" { run_with_known_faults run_transaction '-i 200 -V' "${sends[@]}"; }
@test "dapltest -T T -P: Sends, polling" { run_with_known_faults run_transaction '-i 400 -P' "${sends[@]}"; }
@test "dapltest -T T -r: Sends, by reserved service points" { run_with_known_faults run_transaction '-i 200 -r' "${sends[@]}"; }
@test "dapltest -T T -V -P -r: Sends, verified" { run_with_known_faults run_transaction '-i 200 -V -P -r' "${sends[@]}"; }
@test "dapltest -T T: Sends, completions reaped late" { run_with_known_faults run_transaction '-i 400' client SR 256 1 -f server SR 256 1 -f; }
@test "dapltest -T T: large Sends" { run_with_known_faults run_transaction '-i 20' client SR 1048576 1 server SR 1048576 1; }
@test "dapltest -T T: Sends with four segments" { run_with_known_faults run_transaction '-i 200 -V' client SR 1000 4 server SR 1000 4; }
@test "dapltest -T T: Writes" { run_with_known_faults run_transaction '-i 200' "${writes[@]}"; }
# bats test_tags=brief
@test "dapltest -T T -V: Writes, verified" { run_with_known_faults run_transaction '-i 200 -V' "${writes[@]}"; }
@test "dapltest -T T: Reads" { run_with_known_faults run_transaction '-i 200' "${reads[@]}"; }
# bats test_tags=brief
@test "dapltest -T T -V: Reads, verified" { run_with_known_faults run_transaction '-i 200 -V' "${reads[@]}"; }
# bats test_tags=coherent
@test "dapltest -T T -V: all kinds, verified" { run_with_known_faults run_transaction '-i 100 -V' "${mixed[@]}"; }
# bats test_tags=coherent
@test "dapltest -T T -V -P: all kinds, verified, polling" { run_with_known_faults run_transaction '-i 100 -V -P' "${mixed[@]}"; }
# bats test_tags=coherent
@test "dapltest -T T -V: Reads into three segments, verified" {
    [[ $DRIVER != siw ]] || skip 'iWARP reads into one segment; dapltest does not query max_iov_segments_per_rdma_read'
    run_with_known_faults run_transaction '-i 100 -V' "${in_segments[@]}"
}
@test "dapltest -T T -w 8: Sends on eight endpoints" { run_with_known_faults run_transaction '-i 50 -w 8' "${sends[@]}"; }
@test "dapltest -T T -t 4: Sends by four threads" { run_with_known_faults run_transaction '-i 50 -t 4' "${sends[@]}"; }
# bats test_tags=brief
@test "dapltest -T T -t 4 -w 8: Sends by four threads on eight endpoints each" { run_with_known_faults run_transaction '-i 20 -t 4 -w 8' "${sends[@]}"; }
# bats test_tags=coherent
@test "dapltest -T T -t 4 -w 8 -V: all kinds by four threads on eight endpoints each, verified" { run_with_known_faults run_transaction '-i 10 -t 4 -w 8 -V' "${mixed[@]}"; }
# bats test_tags=coherent
@test "dapltest -T T -t 4 -w 4 -V -P -r: all kinds by four threads, polling" { run_with_known_faults run_transaction '-i 10 -t 4 -w 4 -V -P -r' "${mixed[@]}"; }
@test "dapltest -T T -t 8 -w 8 -r: Sends by eight threads, by reserved service points" { run_with_known_faults run_transaction '-i 10 -t 8 -w 8 -r' "${sends[@]}"; }

@test "dapltest -T P -m b: Writes" { run_with_known_faults run_performance b 1024 16 RW 4096 2; }
# bats test_tags=brief
@test "dapltest -T P -m p: Writes" { run_with_known_faults run_performance p 1024 16 RW 4096 2; }
@test "dapltest -T P -m p: Writes of 64 bytes, one at a time" { run_with_known_faults run_performance p 1024 1 RW 64 1; }
@test "dapltest -T P -m b: Writes of 1 MiB" { run_with_known_faults run_performance b 20 4 RW 1048576 1; }
# bats test_tags=brief
@test "dapltest -T P -m b: Reads" { run_with_known_faults run_performance b 1024 16 RR 4096 1; }
@test "dapltest -T P -m p: Reads" { run_with_known_faults run_performance p 1024 16 RR 4096 1; }
@test "dapltest -T P -m p: Reads of 64 bytes, one at a time" { run_with_known_faults run_performance p 1024 1 RR 64 1; }
