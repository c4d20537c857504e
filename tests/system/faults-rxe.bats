#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Faults of the stock provider for rxe that ours has not.
# Run by ci/stages: softrdma run --driver rxe -- bats tests/system/faults-rxe.bats

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/faults.bash"
driver=rxe

tries() { echo "$BUILD/release/tests/faults $(of rxe DEVICE) $(of rxe GID_INDEX)"; }

@test "a queue that is polled by parts to its end is then empty" { fault polled-to-its-end; }
@test "inline data of a request made by parts are sent" { fault inline-by-parts; }
@test "a receive that invalidated a key says so" { fault invalidation-flag; }
@test "a message before the connection is refused and never sent" { fault early-send; }
@test "a receive posted in the error state is flushed" { fault late-receive; }
@test "a receive posted after the peer has refused a request is flushed" { fault late-receive-broken; }
@test "a pair that broke and was reset is as new" { fault reset-pair; }
@test "atomic writes are offered where the device has them" { right atomic-write-offered; }
@test "another thread can post while one rings for a list" { right held-over-doorbell; }
@test "another thread can post while one rings for requests made by parts" { fault held-over-doorbell-by-parts; }
@test "messages made by parts are as long as their parts" { fault lengths-by-parts; }
@test "a message made by parts that is too long for 32 bits is refused" { fault too-long-by-parts; }
@test "a request that cannot be is refused, and named" { fault bad-request; }
@test "the kernel is not called for a list that begins with a bad request" { fault doorbells; }
@test "a completion queue keeps what is in it when it is resized" { right resized-queue; }
@test "a shared receive queue keeps what is in it when it is resized" { right resized-shared; }
@test "a pair that is no more has no completions" { fault gone-pair; }

# Of either device.
both() { tries() { echo "$BUILD/release/tests/faults_both $(of "$driver" ADDRESS)"; }; }
@test "who has changed user since the device was opened can post and wait" { both && fault changed-user; }
@test "a parent domain for one thread holds what is made in it" { both && fault thread-domain; }
@test "requests of one thread's domain are carried out" { both && fault thread-domain-used; }
@test "an open device is imported with its domain and its memory" { both && fault imported; }
@test "four threads post on one queue pair, two poll: every request completes once" { both && right crowded; }
