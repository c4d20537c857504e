#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Faults of the drivers that the lab's kernel has fixed: scripts/lab/patches/README.md tells which of
# these a kernel without the fixes fails, and how often: the connections are so many that one passes less than
# once in 10,000 runs, where the rate is known, but for reads-beside-writes, which provoked its
# fault in 10 of 12 runs of up to 100 s. They are tried with the stock provider.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"

# require_patch NAME: skips on a kernel that was built without the patch.
require_patch() {
    [[ " ${SOFTRDMA_MISSING_PATCHES-} " != *" $1 "* ]] || skip "this kernel was built without the patch $1"
}

# fixed DRIVER CASE CONNECTIONS
fixed() { "$BUILD/tests/system/provider/kernel_fixes" "$2" "$(device_fact "$1" ADDRESS)" "$3"; }

# fixed_apart DRIVER CASE CONNECTIONS: the program acts between a completion and what the driver does next.
fixed_apart() {
    run_apart
    fixed "$@"
}
# fixed_beside_ack DRIVER CASE CONNECTIONS: an end that sends has a processor to itself, and receives each ACK before
# it continues.
fixed_beside_ack() {
    run_tasks_on 2
    echo 255 >/proc/sys/net/ipv4/tcp_pingpong_thresh # no ACK is delayed
    fixed "$@"
}
# Until the end of the test, the driver's tasks run on one processor, the programs on another.
run_apart() {
    run_tasks_on 1
    taskset --cpu-list --pid 1 $BASHPID
}
# run_tasks_on MASK: until the end of the test.
run_tasks_on() {
    (($(nproc) > 1)) || skip 'needs two processors'
    echo "$1" >/sys/devices/virtual/workqueue/cpumask
}
teardown() { printf %x $(((1 << $(nproc)) - 1)) >/sys/devices/virtual/workqueue/cpumask; }

@test "siw: the initiator receives a message that follows the reply at once" {
    require_patch RDMA-siw-accept-data-that-follow-the-MPA-reply
    fixed siw responder-sends-first 180
}
@test "siw: the responder receives a message that follows its reply at once" {
    require_patch RDMA-siw-give-the-socket-to-the-QP-before-the-MPA-reply-is-sent
    fixed_beside_ack siw initiator-sends-at-once 3
}
@test "siw: a message whose receiver disconnects on it is sent" {
    require_patch RDMA-siw-do-not-check-for-a-closed-connection-after-the-last-segment
    fixed_beside_ack siw receiver-leaves-at-once 5
}
@test "siw: a Read that is flushed completes once" {
    require_patch RDMA-siw-flush-a-Read-once
    fixed siw reads-complete-once 30
}
@test "siw: a Read's response is copied by the transmit thread while the process posts" {
    require_patch RDMA-siw-do-not-copy-from-user-memory-in-the-transmit-thread
    fixed siw reads-beside-writes 3
}
@test "rxe: an MW that is not bound is invalidated, locally and by the peer" {
    require_patch RDMA-rxe-let-the-invalidation-of-an-MW-that-is-not-bound-succeed
    fixed rxe invalidate-twice 2
}
@test "rxe: a message whose receiver disconnects on it is acknowledged" {
    require_patch RDMA-rxe-acknowledge-a-message-before-its-receive-completes
    fixed_apart rxe receiver-leaves 40
}
@test "rxe: a message that is acknowledged is not flushed" {
    require_patch RDMA-rxe-complete-what-is-acknowledged-before-the-send-queue-is-flushed
    fixed_apart rxe sender-leaves 120
}
@test "rxe: a fenced request that is sent again completes" {
    require_patch RDMA-rxe-return-a-request-s-share-of-rd_atomic-when-it-is-sent-again
    expect_right rxe fenced-read-behind-rnr fenced-atomic-behind-rnr fenced-send-before-read
}
@test "rxe: a CQ holds the completions of a long send queue" {
    require_patch RDMA-rxe-let-a-CQ-have-as-many-CQEs-as-a-QP-has-requests
    expect_right rxe long-cq
}
@test "rxe: memory of more than 1 GiB is registered" {
    require_patch RDMA-rxe-register-memory-of-more-than-1-GiB
    expect_right rxe long-mr
}
@test "rxe: Last WQE Reached comes once for each entry into the error state" {
    require_patch RDMA-rxe-report-Last-WQE-Reached-once-for-each-entry-into-the-error-state
    expect_right rxe last-wqe-event-once
}
@test "rxe: Last WQE Reached comes although the QP is reset at once" {
    require_patch RDMA-rxe-report-Last-WQE-Reached-once-for-each-entry-into-the-error-state
    (($(nproc) == 1)) || run_apart
    expect_right rxe last-wqe-event-before-reset
}
@test "rxe: a receive of an SRQ is flushed if its message is cut off" {
    require_patch RDMA-rxe-flush-the-SRQ-receive-of-a-message-that-is-cut-off
    expect_right rxe cut-off-srq-receive
}
@test "siw: a Send with an empty segment among others is sent" {
    require_patch RDMA-siw-leave-out-empty-segments-of-a-send
    expect_right siw empty-segments-of-a-send
}
@test "siw: memory behind an empty segment of a receive is released" {
    require_patch RDMA-siw-release-the-memory-object-behind-an-empty-segment-of-a-receive
    expect_right siw memory-behind-an-empty-segment
}
@test "siw: ibv_query_qp returns no uninitialized memory" {
    require_patch RDMA-siw-initialize-what-query_qp-returns
    expect_right siw query-qp-is-initialized
}
