#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# dtest: streams and ping-pongs by Send, RDMA Write and RDMA Read. What runs with what: ofed.bash.

bats_require_minimum_version 1.8.0
source "$BATS_TEST_DIRNAME/dtest.bash"

setup() { prepare "$BATS_TEST_TMPDIR"; }
teardown() { end_server; }

# bats test_tags=brief
@test "dtest: Sends, Writes and Reads" { run_with_known_faults run_dtest "$all" -b 4096; }
# bats test_tags=brief
@test "dtest -c, with a CNO" { run_with_known_faults run_dtest "$all" -b 4096 -c; }
@test "dtest -p, polling" { run_with_known_faults run_dtest "$all" -b 4096 -p; }
@test "dtest -v, verbose" { run_with_known_faults run_dtest "$all check_verbose" -b 4096 -v; }
@test "dtest -u, one way" { run_with_known_faults run_dtest 'check_client_writes check_client_reads check_pingpong check_client_stream' -b 4096 -u; }
# bats test_tags=brief
@test "dtest -w, Writes only" { run_with_known_faults run_dtest 'check_writes_or_immediate check_stream' -b 4096 -w; }
@test "dtest -w -u, Writes only, one way" { run_with_known_faults run_dtest 'check_client_writes_or_immediate check_client_stream' -b 4096 -w -u; }
@test "dtest -w -c, Writes only, with a CNO" { run_with_known_faults run_dtest 'check_writes_or_immediate check_stream' -b 4096 -w -c; }
# bats test_tags=coherent
@test "dtest -W, Write ping-pong" { run_with_known_faults run_dtest check_write_pingpong -b 4096 -W; }
# bats test_tags=brief, coherent
@test "dtest -W -D, Write ping-pong, verified" { run_with_known_faults run_dtest 'check_write_pingpong check_data_check' -b 4096 -W -D; }
# bats test_tags=coherent
@test "dtest -W -a -i 1024, Writes of all sizes" { run_with_known_faults run_dtest check_all_sizes -b 4096 -W -a -i 1024; }
@test "dtest -S 1, every Write signalled" { run_with_known_faults run_dtest "$all" -b 4096 -S 1; }
@test "dtest -b 65536, large messages" { size=65536 run_with_known_faults run_dtest "$all" -b 65536; }
@test "dtest -b 64, small messages" { size=64 run_with_known_faults run_dtest "$all" -b 64; }
