#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Faults of the stock provider for siw that ours has not.
# Run by ci/stages: softrdma run --driver siw -- bats tests/system/faults-siw.bats

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/faults.bash"
driver=siw

tries() { echo "$BUILD/release/tests/faults_siw $(of siw ADDRESS)"; }

@test "a message invalidates the key that it names, and no other" { fault invalidated-key; }
@test "a read into two pieces is refused, or both are filled" { fault read-in-pieces; }
@test "messages after the end are flushed" { fault late-sends; }
# told NAME: a fault that can only be tried where the kernel tells the state of a pair.
told() {
    row "$1"
    [[ $stock != untried* ]] || skip "$stock"
    [[ $stock == wrong* && $own == right* ]]
}
@test "messages after the peer has hung up are flushed" { told late-sends-to-who-left; }
@test "who waits for an event is woken, also after the peer has hung up" { told left-and-asleep; }
@test "messages in the error state are flushed" { fault late-sends-in-error; }
@test "receives after the end are flushed, behind those of before" { fault late-receives; }
@test "receives after the peer has hung up are flushed, behind those of before" { right late-receives-from-who-left; } # a slow kernel flushes them itself
@test "receives in the error state are flushed, behind those of before" { fault late-receives-in-error; }
@test "who arms a queue and polls again finds what was flushed" { fault late-and-armed; }
@test "who waits for an event is woken by what is flushed later" { fault late-and-asleep; }
@test "whatever is taken after the end completes" { fault late-and-many; }
@test "nothing flushed is reported of a pair that is no more" { fault late-and-gone; }
@test "a message before the connection is refused and never sent" { fault early-send; }
@test "a solicited message wakes who waits for such alone" { fault solicited; }
@test "after a fenced read the queue goes on" { fault fenced-read; }
@test "after an inline message with a key the queue goes on" { fault inline-with-key; }
@test "after a read that the connection does not allow the queue goes on" { fault read-too-many; }
@test "memory by other addresses than ours is refused, or works" { fault region-elsewhere; }
@test "a receive without memory takes a message without data" { fault empty-receive; }
@test "a receive that cannot be is refused, and named" { fault bad-receive; }
@test "a receive queue that is full says so" { fault full-receives; }
@test "all of a completion is defined" { fault whole-completion; }
@test "a pair with a shared queue refuses receives of its own" { fault receive-beside-shared; }
@test "opcodes that nobody knows are refused" { fault opcodes-unknown; }
@test "opcodes that iWARP lacks are refused" { fault opcodes-lacking; }
@test "a shared queue says how large it is" { fault shared-queried; }
@test "requests and completions by parts" { fault by-parts; }
@test "a request behind a read completes behind it" { fault in-order; }
@test "a request that cannot be is refused, and named" { fault bad-request; }
@test "a list that is longer than the queue is taken in part" { fault full-sends; }
@test "inline data that are too long are refused" { fault inline-too-long; }
@test "the kernel is called once for a list" { right doorbells; }
@test "another thread can post while one rings" { fault held-over-doorbell; }
@test "requests are reported as asked for" { right signals; }

# Of either device.
both() { tries() { echo "$BUILD/release/tests/faults_both $(of "$driver" ADDRESS)"; }; }
@test "who has changed user since the device was opened can post and wait" { both && fault changed-user; }
@test "a parent domain for one thread holds what is made in it" { both && fault thread-domain; }
@test "requests of one thread's domain are carried out" { both && fault thread-domain-used; }
@test "an open device is imported with its domain and its memory" { both && fault imported; }
@test "four threads post on one queue pair, two poll: every request completes once" { both && right crowded; }
