#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# dapltest without a server: limits, and functional tests. What runs with what: ofed.bash.

bats_require_minimum_version 1.8.0
source "$BATS_TEST_DIRNAME/dapltest.bash"

setup() { prepare "$BATS_TEST_TMPDIR"; }

# expect_limit_reached WHAT TEXT: a hundred objects were created, and none was refused.
expect_limit_reached() {
    run_limit "$1" "LimitTest: $2: 100$"
    expect_no_trouble client
}
# expect_recv_limit: receives are accepted up to the endpoint's default, and then refused.
expect_recv_limit() {
    local count
    run_limit limit_rpost 'dat_ep_post_recv fails: DAT_INSUFFICIENT_RESOURCES'
    count=$(sed -nE 's/^LimitTest: recv buffers posted per EP: ([0-9]+)/\1/p' "$out/client.out" | head -n 1)
    ((${count:-0} >= 16)) || complain "client: ${count:-no} receives to an endpoint, not 16"
    sed -i '/dat_ep_post_recv fails: DAT_INSUFFICIENT_RESOURCES/d' "$out/client.out"
    expect_no_trouble client
}
# expect_lmr_limit: dapltest doubles the memory to register until that is refused, or is 1 GiB. The guest has about 2.
expect_lmr_limit() {
    run_limit limit_size_lmr 'Largest LMR was 0x[1248]0000000 bytes|LMR of 0x40000000 bytes OK - stopping now'
    if grep -q 'Largest LMR' "$out/client.out"; then
        expect client 'DT_BpoolAlloc: dat_lmr_create failed DAT_INSUFFICIENT_RESOURCES' 'failed attempting 0x'
        expect_times client 1 'dat_lmr_create failed'
    else
        expect_no_trouble client
    fi
}

# bats test_tags=brief
@test "dapltest limit_ia: 100 IAs open" { run_with_known_faults expect_limit_reached limit_ia 'IAs opened'; }
@test "dapltest limit_pz: 100 PZs are created" { run_with_known_faults expect_limit_reached limit_pz 'PZs created'; }
@test "dapltest limit_cno: 100 CNOs are created" { run_with_known_faults expect_limit_reached limit_cno 'CNOs created'; }
@test "dapltest limit_evd: 100 EVDs are created" { run_with_known_faults expect_limit_reached limit_evd 'EVDs created'; }
# bats test_tags=brief
@test "dapltest limit_ep: 100 EPs are created" { run_with_known_faults expect_limit_reached limit_ep 'EPs created'; }
@test "dapltest limit_rsp: 100 RSPs are created" { run_with_known_faults expect_limit_reached limit_rsp 'RSPs created'; }
@test "dapltest limit_psp: 100 PSPs are created" { run_with_known_faults expect_limit_reached limit_psp 'PSPs created'; }
@test "dapltest limit_lmr: 100 LMRs are created" { run_with_known_faults expect_limit_reached limit_lmr 'LMRs created'; }
@test "dapltest limit_rpost: 16 receives are accepted, too many refused" { run_with_known_faults expect_recv_limit; }
@test "dapltest limit_size_lmr: an LMR of 1 GiB is created, or refused as too large" { run_with_known_faults expect_lmr_limit; }

# A case in which the stock provider fails or crashes has a test of its own. Case 5 of queryinfo is empty.
@test "dapltest hwconn: connects and disconnects" { run_with_known_faults run_functional hwconn 0 1 2 3; }
@test "dapltest pz: creates and frees PZs" { run_with_known_faults run_functional pz 0 1 2; }
@test "dapltest mem: creates and frees LMRs" { run_with_known_faults run_functional mem 0 1 3 4; }
@test "dapltest mem: an LMR without memory" { run_with_known_faults run_functional mem 2; }
@test "dapltest endpoint: creates and frees EPs" { run_with_known_faults run_functional endpoint 0 1 2; }
@test "dapltest connmgt: refuses and accepts connections" { run_with_known_faults run_functional connmgt 0 1; }
# bats test_tags=brief
@test "dapltest queryinfo: queries all objects" { run_with_known_faults run_functional queryinfo 0 1 2 3 4 6 7 8 10 11 12 14 16 17; }
@test "dapltest queryinfo: RMR" { run_with_known_faults run_functional queryinfo 9; }
# bats test_tags=brief
@test "dapltest queryinfo: a CNO by the handle of an IA" { run_with_known_faults run_functional queryinfo 13; }
@test "dapltest queryinfo: an EVD by the handle of an IA" { run_with_known_faults run_functional queryinfo 15; }
