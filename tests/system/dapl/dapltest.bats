#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# dapltest's transactions and its measurements of performance. What runs with what: dapl.bash.
# Run by ci/stages: softrdma run --driver rxe|siw -- bats tests/system/dapl/dapltest.bats

bats_require_minimum_version 1.8.0
source "$BATS_TEST_DIRNAME/dapltest.bash"

setup() { prepare "$BATS_TEST_TMPDIR"; }
teardown() { dismiss; }

sends=(client SR 4096 2 server SR 4096 2)
writes=(client RW 4096 1 server RW 4096 1 client SR 256 1 server SR 256 1)
reads=(client RR 4096 1 server RR 4096 1 client SR 256 1 server SR 256 1)
mixed=(client RW 4096 2 server RR 8192 1 client SR 1024 3 server SR 1024 3 server RW 256 1 client RR 256 1)
in_pieces=(client SR 256 1 server RR 1024 3 client RW 1024 1 server SR 256 1)

# bats test_tags=brief
@test "dapltest -T T: Sends" { held transaction '-i 200' "${sends[@]}"; }
# bats test_tags=brief
@test "dapltest -T T -V: Sends, verified" { held transaction '-i 200 -V' "${sends[@]}"; }
@test "dapltest -T T -P: Sends, polling" { held transaction '-i 400 -P' "${sends[@]}"; }
@test "dapltest -T T -r: Sends, by reserved service points" { held transaction '-i 200 -r' "${sends[@]}"; }
@test "dapltest -T T -V -P -r: Sends, verified" { held transaction '-i 200 -V -P -r' "${sends[@]}"; }
@test "dapltest -T T: Sends that are reaped late" { held transaction '-i 400' client SR 256 1 -f server SR 256 1 -f; }
@test "dapltest -T T: large Sends" { held transaction '-i 20' client SR 1048576 1 server SR 1048576 1; }
@test "dapltest -T T: Sends in four pieces" { held transaction '-i 200 -V' client SR 1000 4 server SR 1000 4; }
@test "dapltest -T T: Writes" { held transaction '-i 200' "${writes[@]}"; }
# bats test_tags=brief
@test "dapltest -T T -V: Writes, verified" { held transaction '-i 200 -V' "${writes[@]}"; }
@test "dapltest -T T: Reads" { held transaction '-i 200' "${reads[@]}"; }
# bats test_tags=brief
@test "dapltest -T T -V: Reads, verified" { held transaction '-i 200 -V' "${reads[@]}"; }
@test "dapltest -T T -V: all kinds, verified" { held transaction '-i 100 -V' "${mixed[@]}"; }
@test "dapltest -T T -V -P: all kinds, verified, polling" { held transaction '-i 100 -V -P' "${mixed[@]}"; }
@test "dapltest -T T -V: Reads into three pieces, verified" {
    [[ $DRIVER != siw ]] || skip 'iWARP reads into one piece; dapltest does not ask how many there may be'
    held transaction '-i 100 -V' "${in_pieces[@]}"
}
@test "dapltest -T T -w 8: Sends on eight endpoints" { held transaction '-i 50 -w 8' "${sends[@]}"; }
@test "dapltest -T T -t 4: Sends by four threads" { held transaction '-i 50 -t 4' "${sends[@]}"; }
# bats test_tags=brief
@test "dapltest -T T -t 4 -w 8: Sends by four threads on eight endpoints each" { held transaction '-i 20 -t 4 -w 8' "${sends[@]}"; }
@test "dapltest -T T -t 4 -w 8 -V: all kinds by four threads on eight endpoints each, verified" { held transaction '-i 10 -t 4 -w 8 -V' "${mixed[@]}"; }
@test "dapltest -T T -t 4 -w 4 -V -P -r: all kinds by four threads, polling" { held transaction '-i 10 -t 4 -w 4 -V -P -r' "${mixed[@]}"; }
@test "dapltest -T T -t 8 -w 8 -r: Sends by eight threads, by reserved service points" { held transaction '-i 10 -t 8 -w 8 -r' "${sends[@]}"; }

@test "dapltest -T P -m b: Writes" { held performance b 1024 16 RW 4096 2; }
# bats test_tags=brief
@test "dapltest -T P -m p: Writes" { held performance p 1024 16 RW 4096 2; }
@test "dapltest -T P -m p: Writes of 64 bytes, one at a time" { held performance p 1024 1 RW 64 1; }
@test "dapltest -T P -m b: Writes of 1 MiB" { held performance b 20 4 RW 1048576 1; }
# bats test_tags=brief
@test "dapltest -T P -m b: Reads" { held performance b 1024 16 RR 4096 1; }
@test "dapltest -T P -m p: Reads" { held performance p 1024 16 RR 4096 1; }
@test "dapltest -T P -m p: Reads of 64 bytes, one at a time" { held performance p 1024 1 RR 64 1; }
