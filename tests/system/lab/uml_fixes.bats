#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Faults of user mode that the lab's kernel has fixed: scripts/lab/patches/README.md tells how often a
# kernel without the fixes fails each of these.

bats_require_minimum_version 1.8.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"
source "$BATS_TEST_DIRNAME/../lib/caller.bash"

# require_patch NAME: skips if the kernel was built without the patch.
require_patch() {
    local missing
    missing=$(softrdma run -q --in uml --driver siw -- printenv SOFTRDMA_MISSING_PATCHES)
    [[ " $missing " != *" $1 "* ]] || skip "this kernel was built without the patch $1"
}

# start_kernel COMMAND: starts a kernel and runs the command in a shell as its first program. $START starts the kernel.
start_kernel() {
    local start=()
    read -ra start <<<"${START:-}"
    printf '#!/bin/sh\n%s\n' "$1" >init
    chmod +x init
    # A session of its own: a kernel that panics ends its process group.
    setsid "${start[@]}" "$(softrdma kernel path)" mem=256M "ncpus=${NCPUS:-2}" seccomp=on root=none rootfstype=hostfs rootflags=/ ro quiet \
        panic=-1 con=null con0=null,fd:1 ssl=null "uml_dir=$PWD/uml" "init=$PWD/init" >out 2>err </dev/null 3>&- &
    pid=$!
    wait_until is_ready_or_ended "$pid" grep -q begun out
}

# debug_kernel FUNCTION CASE [ADDRESS...]: starts a kernel whose processors often switch tasks and sleep, and calls
# uml_faults. An address may be that of a function.
debug_kernel() {
    local address addresses=()
    start_kernel 'mount -t proc none /proc; cat /proc/kallsyms; echo begun; while :; do sleep 0.01; done'
    for address in "${@:3}"; do addresses+=("$(address_of "$address")"); done
    "$BUILD/tests/system/lab/uml_faults" "$pid" "$(address_of "$1")" "$2" "${addresses[@]}"
}
address_of() {
    if [[ $1 == 0x* ]]; then echo "$1"; else sed -nE "s/ \w $1\s*$//p" out; fi
}
teardown() {
    # A kernel with a fault ends by itself, at any time.
    if [[ -v pid ]]; then kill -KILL "$pid" 2>/dev/null || ! kill -0 "$pid" 2>/dev/null; fi
}

@test "user mode: a fault with interrupts disabled does not enable them" {
    require_patch um-do-not-enable-interrupts-in-a-fault-handler-where-they-were-disabled
    debug_kernel set_next_task_fair fault 0x78000000 # beyond the memory
}
@test "user mode: a panic with a run queue locked ends the kernel" {
    require_patch um-restore-the-interrupt-state-after-a-stub-process-is-killed
    debug_kernel set_next_task_fair panic panic
}
@test "user mode: a processor does not sleep with input pending" {
    require_patch um-do-not-sleep-in-idle-with-SIGIO-pending
    NCPUS=1 debug_kernel arch_cpu_idle idle
}
ipi_patch=um-disable-interrupts-from-other-processors-without-a-system-call
# interrupt_in FUNCTION
interrupt_in() {
    require_patch "$ipi_patch"
    NCPUS=1 debug_kernel "$1" ipi os_send_ipi uml_ipi_handler __raise_softirq_irqoff run_timer_softirq
}
@test "user mode: interrupts are handled that another processor sends while they are disabled" {
    interrupt_in set_next_task_fair
}
@test "user mode: interrupts are handled that another processor sends during the timer interrupt" {
    interrupt_in um_timer
}
@test "user mode: interrupts are handled that another processor sends before the sleep" {
    interrupt_in arch_cpu_idle
}
@test "user mode: a processor does not sleep with an interrupt of another processor pending" {
    require_patch "$ipi_patch"
    NCPUS=1 debug_kernel arch_cpu_idle idle os_send_ipi
}
@test "user mode: a processor does not sleep with the end of a process pending" {
    require_patch "$ipi_patch"
    NCPUS=1 debug_kernel arch_cpu_idle child
}
@test "user mode: a softirq that an interrupt of another processor calls can be interrupted" {
    require_patch "$ipi_patch"
    NCPUS=1 debug_kernel hrtimer_nanosleep softirq os_send_ipi __raise_softirq_irqoff run_timer_softirq
}
@test "user mode: a processor can be interrupted by others whatever was blocked at the start" {
    require_patch "$ipi_patch"
    START='env --block-signal=USR2' debug_kernel arch_cpu_idle masks
}

# processors_of PID...: prints, for each thread of these processes, the processors of the host on which it may run.
processors_of() {
    local files=()
    for process; do files+=("/proc/$process/task/"*/status); done
    sed -n 's/^Cpus_allowed_list:\s*//p' "${files[@]}"
}
one_processor='^[0-9]+$'
# The kernel and a program of it are bound to the same processor. Its only thread is the first.
are_placed() {
    local programs processors
    mapfile -t programs < <(pgrep -P "$pid")
    mapfile -t processors < <(processors_of "$pid" "${programs[@]}")
    [[ ${processors[0]} =~ $one_processor && " ${processors[*]:1} " == *" ${processors[0]} "* ]]
}
# stay_free PID...: none of these processes is bound to one processor for a second.
stay_free() {
    local processors
    for _ in {1..20}; do
        mapfile -t processors < <(processors_of "$@")
        ((${#processors[@]} >= $#)) || return 1 # one has ended
        ! grep -qE "$one_processor" <<<"$(printf '%s\n' "${processors[@]}")" || return 1
        pause 0.05
    done
}
# call_often_then COMMAND: starts a kernel with a program that makes system calls all the time, waits until both are
# bound, and lets the program go on with the command.
call_often_then() {
    require_patch um-run-a-program-that-calls-often-on-the-kernel-s-CPU
    (($(nproc) > 1)) || skip 'this machine has one processor'
    NCPUS=1 start_kernel "echo begun; while [ ! -e '$PWD/leave' ]; do :; done; $1"
    wait_until are_placed
    touch leave
}
@test "user mode: a program that calls often runs on the kernel's processor until it computes" {
    call_often_then 'while :; do :; done'
    mapfile -t programs < <(pgrep -P "$pid")
    wait_until stay_free "$pid" "${programs[@]}"
}
@test "user mode: a kernel that works for long is not bound to a processor" {
    call_often_then 'exec dd if=/dev/zero of=/dev/null bs=64M 2>/dev/null'
    wait_until stay_free "$pid"
}
@test "user mode: the kernel has the processor's code for checksums" {
    require_patch lib-crc-use-the-code-of-x86-64-in-user-mode
    softrdma run -q --in uml --driver rxe -- grep -qw crc32_lsb_pclmul_sse /proc/kallsyms
}
@test "user mode: an old kernel runs a program on a processor with AMX" {
    grep -qw amx_tile /proc/cpuinfo || skip 'this processor has no AMX'
    softrdma kernel path 6.12 || skip 'kernel 6.12 is not built: softrdma kernel build 6.12'
    softrdma run -q --in uml --kernel 6.12 --driver siw -- true
}
