#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The cache instructions of other CPUs, in user-mode emulators, which have no cache: the tests check the
# executed instructions, their lines and fences, and the behavior of CPUs without them.
#
# QEMU 7.2 accepts dc cvac on unreadable memory and has no dcbf for persistent memory: not tested.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_DIRNAME/../../.." || return
    cache=ibverbs-glue/cache
    ulimit -t 600 # CPU seconds: ends an endless loop
}

# build_touch ARCH: sets $touch. SOURCES, OUT_DIR: folders of altered sources and of their program.
build_touch() {
    local cpu=$1 folder=${SOURCES:-$cache} compiler=${1/ppc/powerpc}-linux-gnu-g++
    command -v "$compiler" >/dev/null || skip "no $compiler"
    touch=${OUT_DIR:-$BATS_FILE_TMPDIR}/touch-$1
    [[ ! -x $touch ]] || return 0
    [[ -f $folder/$cpu.cpp ]] || cpu=none
    nice "$compiler" -std=c++20 -O2 -static -fno-exceptions -fno-rtti -Wall -Wextra -Wpedantic \
        -Wconversion -Wsign-conversion -Wshadow -Wold-style-cast -Werror -I"$(dirname "$folder")" \
        -o "$touch" tests/unit/cache/touch.cpp "$folder"/{choose,fault_guard,"$cpu"}.cpp
}

# find_emulator ARCH: sets $emulator.
find_emulator() {
    emulator=$(command -v "qemu-$1") || skip "no qemu-$1"
}

# Sets $emulator to a newer QEMU for RISC-V.
fetch_emulator() {
    local status=0
    emulator=$(tests/debian/emulator.py qemu-riscv64 2>"$BATS_TEST_TMPDIR/steps") || status=$?
    ((status != 77)) || skip "$emulator"
    return "$status"
}

# trace ARCH MODEL LINE [TASK]: succeeds, and prints the number of lines.
trace() {
    run -0 tests/unit/cache/traced.py "$1" "$3" "$emulator" "$2" "$touch" "${@:4}"
    printf '# %s\n' "$output" >&3
}

# check_cpu ARCH MODEL LINE OPS: the trace, the fences, the self-test and COHERDMA_CACHE.
check_cpu() {
    find_emulator "$1"
    build_touch "$1"
    trace "$1" "$2" "$3"
    trace "$1" "$2" "$3" order
    run -0 "$emulator" -cpu "$2" "$touch" selftest
    [[ $output == "ops $4 line $3" ]]
    run -0 env COHERDMA_CACHE="$4" "$emulator" -cpu "$2" "$touch"
    run -3 env COHERDMA_CACHE=clwb "$emulator" -cpu "$2" "$touch"
    [[ $output == 'none: COHERDMA_CACHE names no instructions of this CPU architecture' ]]
}

@test "arm64, 32-byte lines: each touched once between fences" {
    check_cpu aarch64 max 32 dc
}

@test "arm64, 64-byte lines: each touched once between fences" {
    check_cpu aarch64 cortex-a57 64 dc
}

@test "arm64, 256-byte lines: each touched once between fences" {
    check_cpu aarch64 a64fx 256 dc
}

# The CPU of the model max does not report its granule.
@test "arm64: write-back granule as reported, or the maximum" {
    local model
    find_emulator aarch64
    build_touch aarch64
    for model in max:2048 cortex-a57:64 a64fx:256; do
        run -0 "$emulator" -cpu "${model%:*}" "$touch" granule
        [[ $output == "granule ${model#*:}" ]]
    done
}

@test "POWER9, 128-byte lines: each touched once between fences" {
    check_cpu ppc64le power9 128 dcb
}

@test "POWER10, 128-byte lines: each touched once between fences" {
    check_cpu ppc64le power10 128 dcb
}

# trace_zicbom MODEL LINE: with an emulator that has Zicbom. If it traps the instructions, the traps show
# them; riscv64_guest.bats runs them.
trace_zicbom() {
    local task=trace
    fetch_emulator
    build_touch riscv64
    "$emulator" -cpu "$1" "$touch" || task=trapped
    trace riscv64 "$1" "$2" "$task"
}

@test "RISC-V, 64-byte lines: each touched once between fences" {
    trace_zicbom max 64
}

@test "RISC-V, 128-byte lines: each touched once between fences" {
    trace_zicbom max,cbom_blocksize=128 128
}

@test "RISC-V, coherent device: fences executed" {
    find_emulator riscv64
    build_touch riscv64
    trace riscv64 rv64 64 order
}

no_instructions='none: this CPU has no cache maintenance instructions for user programs'
not_on_this_cpu='none: this CPU does not have the instructions that COHERDMA_CACHE names'

assert_refused() { # MODEL REPORTED
    run -0 "$emulator" -cpu "$1" "$touch" reported
    [[ $output == "zicbom: $2" ]]
    run -3 "$emulator" -cpu "$1" "$touch" selftest
    [[ $output == "$no_instructions" ]]
    run -3 env COHERDMA_CACHE=zicbom "$emulator" -cpu "$1" "$touch"
    [[ $output == "$not_on_this_cpu" ]]
}

@test "RISC-V, reported instructions that trap: refused" {
    fetch_emulator
    build_touch riscv64
    ! "$emulator" -cpu max "$touch" || skip 'this emulator runs the instructions'
    assert_refused max yes
}

@test "RISC-V without Zicbom: refused" {
    fetch_emulator
    build_touch riscv64
    assert_refused max,zicbom=false no
}

@test "RISC-V, kernel without hwprobe: refused" {
    find_emulator riscv64
    build_touch riscv64
    "$emulator" --version | grep -qE 'version [0-7]\.' || skip 'this emulator knows hwprobe'
    assert_refused rv64 no
}

@test "unknown CPU: refused, faults handled" {
    find_emulator s390x
    build_touch s390x
    run -3 "$emulator" "$touch" selftest
    [[ $output == "$no_instructions" ]]
}

@test "kernel_action matches struct sigaction of each CPU" {
    local cpu compiler compiled=''
    for cpu in x86_64 aarch64 powerpc64le riscv64 s390x; do
        compiler=$cpu-linux-gnu-g++
        command -v "$compiler" >/dev/null || continue
        "$compiler" -std=c++20 -fsyntax-only -Iibverbs-glue tests/unit/cache/kernel_action_layout.cpp
        compiled=yes
    done
    [[ $compiled ]] || skip 'no compiler'
}

# trace_faulty ARCH MODEL LINE FILE EDIT: traces the program with an injected fault.
trace_faulty() {
    local SOURCES=$BATS_TEST_TMPDIR/cache OUT_DIR=$BATS_TEST_TMPDIR
    find_emulator "$1"
    cp -r "$cache" "$SOURCES"
    sed -i "$5" "$SOURCES/$4"
    run -1 cmp -s "$cache/$4" "$SOURCES/$4"
    build_touch "$1"
    run -1 tests/unit/cache/traced.py "$1" "$3" "$emulator" "$2" "$touch"
}

@test "trace detects a wrong line size" {
    trace_faulty aarch64 max 32 aarch64.cpp 's/return WORD_SIZE << ((read_ctr() >> CTR_DMIN_LINE.*/return read_ctr() != 0 ? 64 : 0;/'
    [[ $output =~ 'dc cvac missed' ]]
}

@test "trace detects a missed last line" {
    trace_faulty ppc64le power9 128 lines.hpp 's/if (line == last_line)/if (line + line_size >= last_line)/'
    [[ $output =~ 'dcbst missed' ]]
}

@test "trace detects a missing fence" {
    trace_faulty aarch64 max 32 aarch64.cpp \
        's/fence_after_writeback = dsb_sy/fence_after_writeback = compiler_barrier/'
    [[ $output =~ 'dc cvac of '.*' not within its fences' ]]
}

@test "trace detects a missing invalidation" {
    trace_faulty ppc64le power9 128 ppc64le.cpp 's/dcbf 0, %0/dcbst 0, %0/'
    [[ $output =~ 'dcbf missed' ]]
}
