#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# dtest: streams and ping-pongs by Send, RDMA Write and RDMA Read. What runs with what: dapl.bash.
# Run by ci/stages: softrdma run --driver rxe|siw -- bats tests/system/dapl/dtest.bats

bats_require_minimum_version 1.8.0
source "$BATS_TEST_DIRNAME/dtest.bash"

setup() { prepare "$BATS_TEST_TMPDIR"; }
teardown() { dismiss; }

# bats test_tags=brief
@test "dtest" { held ran "$all" -b 4096; }
# bats test_tags=brief
@test "dtest -c, with a CNO" { held ran "$all" -b 4096 -c; }
@test "dtest -p, polling" { held ran "$all" -b 4096 -p; }
@test "dtest -v, saying all it does" { held ran "$all told_all" -b 4096 -v; }
@test "dtest -u, one way" { held ran 'written_by_client read_back_by_client messaged streamed_by_client' -b 4096 -u; }
# bats test_tags=brief
@test "dtest -w, Writes alone" { held ran 'written_or_immediate streamed' -b 4096 -w; }
@test "dtest -w -u, Writes alone, one way" { held ran 'written_or_immediate_by_client streamed_by_client' -b 4096 -w -u; }
@test "dtest -w -c, Writes alone, with a CNO" { held ran 'written_or_immediate streamed' -b 4096 -w -c; }
@test "dtest -W, Writes back and forth" { held ran bounced -b 4096 -W; }
# bats test_tags=brief
@test "dtest -W -D, Writes back and forth, verified" { held ran 'bounced verified' -b 4096 -W -D; }
@test "dtest -W -a -i 1024, Writes of all sizes" { held ran bounced_in_all_sizes -b 4096 -W -a -i 1024; }
@test "dtest -S 1, every Write signalled" { held ran "$all" -b 4096 -S 1; }
@test "dtest -b 65536" { size=65536 held ran "$all" -b 65536; }
@test "dtest -b 64" { size=64 held ran "$all" -b 64; }
