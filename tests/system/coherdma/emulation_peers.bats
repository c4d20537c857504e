#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Requests of one emulated process on memory of another, or on its own: those that are posted are reported, and only
# those. PROVIDER=stock uses rdma-core's. WHOLE=1: more MRs.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"

setup() {
    export RDMAV_DRIVERS=$BUILD/provider/libcoherdma-observers COHERDMA_EMULATE=stale
    [[ ${PROVIDER:-} == stock ]] || RDMAV_DRIVERS=$BUILD/provider/libcoherdma:$RDMAV_DRIVERS
    cd "$BATS_TEST_TMPDIR" || return
}

# expect OWNER REQUESTER SCENARIO: so many findings in the process that has the memory, and in that which posts.
expect() {
    local status=0
    "$BUILD/tests/system/coherdma/emulation/peers" "$(device_fact rxe DEVICE)" "$(device_fact rxe GID_INDEX)" "$3" \
        2>stderr || status=$?
    [[ $status != 77 ]] || skip 'the provider lacks it'
    head -c 4000 stderr
    [[ $status == 0 ]]
    ! grep 'not checked\|in time' stderr
    for side in "owner $1" "requester $2"; do
        jq -es --argjson number "${side#* }" 'last | .coherdma == "summary" and .findings == $number' "${side% *}.json"
    done
}

@test "a request of a peer that the driver accepts is reported" { expect 1 0 posted; }
@test "one that it refuses is not" { expect 0 0 refused; }
@test "nor is a Write" { expect 0 0 refused-write; }
@test "of a list, those before the refused one are reported" { expect 2 0 list; }
@test "a request on memory of the process that the driver accepts is reported" { expect 0 1 own-posted; }
@test "one of the process that it refuses is not" { expect 0 0 own-refused; }
@test "of a list of the process, those before the refused one are reported" { expect 0 2 own-list; }
@test "an atomic Write of a peer is reported, unless it is discarded" { expect 1 0 atomic-write; }
@test "requests on each of thousands of MRs are reported" { expect "$([[ ${WHOLE:-} == 1 ]] && echo 10000 || echo 2000)" 0 many; }
@test "an MW that its process invalidates gives no access" { expect 1 0 local-inv; }
@test "an MW that a Send invalidates gives no access" { expect 1 0 remote-inv; }
@test "nor if the completion comes by an extended CQ" {
    [[ ${PROVIDER:-} != stock ]] || skip 'the stock rxe confuses completions of extended CQs'
    expect 1 0 remote-inv-extended
}
@test "a former rkey of an MW gives no access" { expect 1 0 rebind; }
@test "an MW that is deallocated gives no access" { expect 1 0 free-mw; }
@test "an MW whose QP is destroyed gives no access" { expect 1 0 end-qp; }
