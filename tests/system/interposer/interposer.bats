#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The interposer with an observer that counts: what it counts is what the programs did. With the provider that
# $PROVIDER names: stock or coherdma. With ATTACHED=1 the interposer is attached when the program lists the devices.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/counts.bash"

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    programs=$BUILD/tests/system/interposer
    [[ ${PROVIDER:?} != coherdma ]] || use_our_provider
}

# In each round rping's server reads and writes the client's memory; both announce themselves by a message, twice.
run_observed_rping() { # DRIVER
    local address
    address=$(device_fact "$1" ADDRESS)
    PORT=7174 run_server_client "$(observed server rping -s -a "$address" -V -C 30 -S 1000)" \
        "$(observed client rping -c -a "$address" -V -v -C 30 -S 1000)"
    expect_pings 30
    expect_counts client opens=1 sends=60 accepted=60 send_bytes=960 mr.created=4 context.created=1 unknown=0 refused=0
    expect_counts server sends=120 send_bytes=$((960 + 2 * 30 * 1000)) mr.created=3 unknown=0
    expect_all_destroyed client mr pd channel cq qp cm_id
}
@test "rxe: the requests and objects of rping are counted" { run_observed_rping rxe; }
@test "siw: the requests and objects of rping are counted" { run_observed_rping siw; }

count_of() { sed -n "s/^$2 //p" "$BATS_TEST_TMPDIR/$1.count"; } # FILE NAME

# With -Q 10, nine of ten requests have no completion. -R also exchanges messages, as many each way.
run_observed_write_bw() { # DRIVER
    local address options
    address=$(device_fact "$1" ADDRESS)
    options="-R -d $(device_fact "$1" DEVICE) -n 200 -Q 10 -s 4096"
    PORT=18515 run_perftest_commands "$(observed server ib_write_bw "$options")" '' \
        "$(observed client ib_write_bw "$options" "$address")"
    expect_counts client silent=180 unknown=0 failed=0
    (($(count_of client send_bytes) - $(count_of client receive_bytes) == 200 * 4096))
    (($(count_of client sends) - $(count_of client receives) + $(count_of client outstanding) == 200))
    expect_counts server silent=0 unknown=0
}
@test "rxe: unsignaled requests are complete with the signaled one after them" { run_observed_write_bw rxe; }
@test "siw: unsignaled requests are complete with the signaled one after them" { run_observed_write_bw siw; }

# run_observed_pingpong OPTIONS [PROGRAM]
run_observed_pingpong() {
    local options program=${2:-ibv_rc_pingpong}
    options="$1 -n 100 -d $(device_fact rxe DEVICE) -g $(device_fact rxe GID_INDEX)"
    READY='is_listening_tcp 18515' run_server_client "$(observed server "$program" "$options")" \
        "$(observed client "$program" "$options" "$(device_fact rxe ADDRESS)")"
    expect_output client '^100 iters'
    expect_counts client unknown=0 failed=0
}
@test "rxe: ibv_post_send, and events" {
    run_observed_pingpong '-e -s 2000'
    expect_counts client sends=100 send_bytes=200000 receive_bytes=200000 completions=200 qp.destroyed=1
}
@test "rxe: the ibv_wr_* functions" {
    run_observed_pingpong '-N -s 2000'
    expect_counts client sends=100 send_bytes=200000 receive_bytes=200000 completions=200
}
# The device moves the observer's bytes, so the program finds other data than it expects: it does not look at them.
@test "rxe: an observer registers other memory under the program's addresses" {
    COUNT_MOVE_MR=1 run_observed_pingpong '-s 2000'
    expect_counts client moved_mrs=1 mr.destroyed=1 sends=100 receive_bytes=200000
}
@test "rxe: a context that no observer wants is not observed, and they are asked once" {
    COUNT_DECLINE=1 run_observed_pingpong '-s 2000'
    expect_counts client opens=1 pd.created=0 sends=0 polls=0
}
@test "rxe: UD, with address handles" {
    run_observed_pingpong '-s 1000' ibv_ud_pingpong
    expect_counts client sends=100 send_bytes=100000 completions=200 ah.created=1 ah.destroyed=1
}
@test "rxe: an SRQ" {
    run_observed_pingpong '-q 4 -s 1000' ibv_srq_pingpong
    expect_counts client srq.created=1 srq.destroyed=1 qp.destroyed=4 receives=500
}

@test "a program that loads libibverbs and looks its functions up is observed, a thousand times" {
    local count=1000
    if [[ ${ATTACHED:-} ]]; then
        count=999 # but for what it looked up before it listed the devices
    else
        export LD_AUDIT=$BUILD/provider/libcoherdma-interposer-audit.so
    fi
    # shellcheck disable=SC2046 # words
    run -0 timeout 300 $(observed program "$programs/dlsym_verbs" 1000)
    expect_counts program context.created=$count context.destroyed=$count pd.created=$count mr.destroyed=$count
}

# The package's plugin may be loaded beside that of a build folder, and two settings may name an observer.
@test "copies of the plugin, of the interposer and of an observer change nothing" {
    mkdir copies
    cp "$BUILD"/provider/libcoherdma-{observers-rdmav34,interposer}.so "$programs/libcount.so" copies
    local drivers=${RDMAV_DRIVERS:-} observers=$programs/libcount.so:$PWD/copies/libcount.so
    drivers=$BUILD/provider/libcoherdma-observers:$PWD/copies/libcoherdma-observers${drivers:+:$drivers}
    # shellcheck disable=SC2046 # words
    run -0 $(observed program env RDMAV_DRIVERS="$drivers" COHERDMA_OBSERVERS="$observers" ibv_devinfo -d "$(device_fact rxe DEVICE)")
    expect_counts program opens=1 context.created=1 context.destroyed=1
}

@test "that a program posts past libibverbs is said once" {
    [[ -e $programs/direct_verbs ]] || skip "libmlx5's header was not there when this was built"
    # shellcheck disable=SC2046 # words
    run -0 $(observed program "$programs/direct_verbs")
    [[ $output == 'coherdma: this program calls mlx5dv_init_obj() of libmlx5.so.1: '*'are not observed' ]]
    # shellcheck disable=SC2046 # words
    run -0 $(observed program "$programs/direct_verbs" pd)
    [[ -z $output ]]
}

@test "a program without RDMA does not load libibverbs" {
    [[ ! ${ATTACHED:-} ]] || skip "it is not attached to such a program"
    # shellcheck disable=SC2046 # words
    run -0 $(observed program grep -oE 'libibverbs|interposer.so' /proc/self/maps)
    [[ $output == *interposer.so* && $output != *libibverbs* ]]
    [[ ! -e $BATS_TEST_TMPDIR/program.count ]]
}

@test "an observer that is not there ends the program" {
    run -1 "$BATS_TEST_DIRNAME/observed" env COHERDMA_OBSERVERS=/nonexistent ibv_devinfo
    [[ $output == *'cannot observe this program: /nonexistent:'* ]]
}
