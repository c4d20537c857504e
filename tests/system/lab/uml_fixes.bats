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

# debug_kernel FUNCTION CASE [ADDRESS]: starts a kernel whose processors often switch tasks and sleep, and calls
# uml_faults. The address may be that of a function.
debug_kernel() {
    cat >init <<'END'
#!/bin/sh
mount -t proc none /proc
grep -E ' (set_next_task_fair|arch_cpu_idle|panic)$' /proc/kallsyms
echo begun
while :; do sleep 0.01; done
END
    chmod +x init
    # A session of its own: a kernel that panics ends its process group.
    setsid "$(softrdma kernel path)" mem=256M "ncpus=${NCPUS:-2}" seccomp=on root=none rootfstype=hostfs rootflags=/ ro quiet \
        panic=-1 con=null con0=null,fd:1 ssl=null "uml_dir=$PWD/uml" "init=$PWD/init" >out 2>err </dev/null 3>&- &
    pid=$!
    wait_until is_ready_or_ended "$pid" grep -q begun out
    "$BUILD/tests/system/lab/uml_faults" "$pid" "$(address_of "$1")" "$2" ${3:+"$(address_of "$3")"}
}
address_of() {
    if [[ $1 == 0x* ]]; then echo "$1"; else sed -nE "s/ \w $1\b.*//p" out; fi
}
teardown() {
    if [[ -v pid ]] && kill -0 "$pid" 2>/dev/null; then kill -KILL "$pid"; fi
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
@test "user mode: an old kernel runs a program on a processor with AMX" {
    grep -qw amx_tile /proc/cpuinfo || skip 'this processor has no AMX'
    softrdma kernel path 6.12 || skip 'kernel 6.12 is not built: softrdma kernel build 6.12'
    softrdma run -q --in uml --kernel 6.12 --driver siw -- true
}
