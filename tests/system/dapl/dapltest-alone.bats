#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# What dapltest does without a server: limits, and functional tests. What runs with what: dapl.bash.
# Run by ci/stages: softrdma run --driver rxe|siw -- bats tests/system/dapl/dapltest-alone.bats

bats_require_minimum_version 1.8.0
source "$BATS_TEST_DIRNAME/dapltest.bash"

setup() { prepare "$BATS_TEST_TMPDIR"; }

# all_of WHAT WORD: a hundred were made, and nothing was refused.
all_of() {
    limit "$1" "LimitTest: $2: 100$"
    no_trouble client
}
# posted: as many receives as the default queue of an endpoint has are taken, and what is too much
# is refused as such.
posted() {
    local count
    limit limit_rpost 'dat_ep_post_recv fails: DAT_INSUFFICIENT_RESOURCES'
    count=$(sed -nE 's/^LimitTest: recv buffers posted per EP: ([0-9]+)/\1/p' "$out/client.out" | head -n 1)
    ((${count:-0} >= 16)) || complain "client: ${count:-no} receives to an endpoint, not 16"
    sed -i '/dat_ep_post_recv fails: DAT_INSUFFICIENT_RESOURCES/d' "$out/client.out"
    no_trouble client
}
# sized: it doubles the memory to register until that is refused, or is 1 GiB. The guest has about 2.
sized() {
    limit limit_size_lmr 'Largest LMR was 0x[1248]0000000 bytes|LMR of 0x40000000 bytes OK - stopping now'
    if grep -q 'Largest LMR' "$out/client.out"; then
        expect client 'DT_BpoolAlloc: dat_lmr_create failed DAT_INSUFFICIENT_RESOURCES' 'failed attempting 0x'
        times client 1 'dat_lmr_create failed'
    else
        no_trouble client
    fi
}

# bats test_tags=brief
@test "dapltest limit_ia" { held all_of limit_ia 'IAs opened'; }
@test "dapltest limit_pz" { held all_of limit_pz 'PZs created'; }
@test "dapltest limit_cno" { held all_of limit_cno 'CNOs created'; }
@test "dapltest limit_evd" { held all_of limit_evd 'EVDs created'; }
# bats test_tags=brief
@test "dapltest limit_ep" { held all_of limit_ep 'EPs created'; }
@test "dapltest limit_rsp" { held all_of limit_rsp 'RSPs created'; }
@test "dapltest limit_psp" { held all_of limit_psp 'PSPs created'; }
@test "dapltest limit_lmr" { held all_of limit_lmr 'LMRs created'; }
@test "dapltest limit_rpost" { held posted; }
@test "dapltest limit_size_lmr" { held sized; }

# Where stock fails, or dies and takes the others along, a case has a test of its own. The fifth of
# queryinfo, of connection requests, is empty.
@test "dapltest hwconn" { held functional hwconn 0 1 2 3; }
@test "dapltest pz" { held functional pz 0 1 2; }
@test "dapltest mem" { held functional mem 0 1 3 4; }
@test "dapltest mem: no memory at all" { held functional mem 2; }
@test "dapltest endpoint" { held functional endpoint 0 1 2; }
@test "dapltest connmgt" { held functional connmgt 0 1; }
# bats test_tags=brief
@test "dapltest queryinfo" { held functional queryinfo 0 1 2 3 4 6 7 8 10 11 12 14 16 17; }
@test "dapltest queryinfo: of an RMR" { held functional queryinfo 9; }
# bats test_tags=brief
@test "dapltest queryinfo: of a CNO by an IA's handle" { held functional queryinfo 13; }
@test "dapltest queryinfo: of an EVD by an IA's handle" { held functional queryinfo 15; }
