#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The cache instructions of CPUs that are not this machine's, by emulators of single programs. They
# have no cache: what is seen is which instructions are executed, on which lines, between which
# fences, and what happens where there are none.
#
# Not relied on, for QEMU 7.2 gets it wrong: it accepts dc cvac on memory that may not be read, and
# does not know the forms of dcbf for persistent memory.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_DIRNAME/../.." || return
    cache=ibverbs-glue/cache
    ulimit -t 60 # a loop that does not end
}

# built ARCH: the program for a CPU is $touch. SOURCES and INTO are for one that is not as it is.
built() {
    local cpu=$1 from=${SOURCES:-$cache} compiler=${1/ppc/powerpc}-linux-gnu-g++
    command -v "$compiler" >/dev/null || skip "no $compiler"
    touch=${INTO:-$BATS_FILE_TMPDIR}/touch-$1
    [[ ! -x $touch ]] || return 0
    [[ -f $from/$cpu.cpp ]] || cpu=none
    nice "$compiler" -std=c++20 -O2 -static -fno-exceptions -fno-rtti -Wall -Wextra -Wpedantic \
        -Wconversion -Wsign-conversion -Wshadow -Wold-style-cast -Werror -I"$(dirname "$from")" \
        -o "$touch" tests/unit/touch.cpp "$from"/{choose,guard,"$cpu"}.cpp
}

# emulated ARCH: what runs its programs is $emulator.
emulated() {
    emulator=$(command -v "qemu-$1") || skip "no qemu-$1"
}

newer() {
    local status=0
    emulator=$(tests/unit/emulator.py qemu-riscv64 2>"$BATS_TEST_TMPDIR/steps") || status=$?
    ((status != 77)) || skip "$emulator"
    return "$status"
}

# traced ARCH MODEL LINE [TASK]: it was all right, and on how many lines.
traced() {
    run -0 tests/unit/traced.py "$1" "$3" "$emulator" "$2" "$touch" "${@:4}"
    printf '# %s\n' "$output" >&3
}

# every_line ARCH MODEL LINE PATH: all that can be asked of a CPU.
every_line() {
    emulated "$1"
    built "$1"
    traced "$1" "$2" "$3"
    traced "$1" "$2" "$3" order
    run -0 "$emulator" -cpu "$2" "$touch" kept
    [[ $output == "path $4 line $3" ]]
    run -0 env COHERDMA_CACHE="$4" "$emulator" -cpu "$2" "$touch"
    run -3 env COHERDMA_CACHE=clwb "$emulator" -cpu "$2" "$touch"
    [[ $output == 'none: COHERDMA_CACHE names no way of this kind of CPU' ]]
}

@test "arm64, lines of 32: each is touched once, within the fences" {
    every_line aarch64 max 32 dc
}

@test "arm64, lines of 64: each is touched once, within the fences" {
    every_line aarch64 cortex-a57 64 dc
}

@test "arm64, lines of 256: each is touched once, within the fences" {
    every_line aarch64 a64fx 256 dc
}

@test "POWER9, lines of 128: each is touched once, within the fences" {
    every_line ppc64le power9 128 dcb
}

@test "POWER10, lines of 128: each is touched once, within the fences" {
    every_line ppc64le power10 128 dcb
}

# zicbom MODEL LINE: as an emulator has it that knows the instructions. If it keeps programs from
# them, each traps, which shows as well that it was executed. zicbom.bats has what does not trap.
zicbom() {
    local task=trace
    newer
    built riscv64
    "$emulator" -cpu "$1" "$touch" || task=trapped
    traced riscv64 "$1" "$2" "$task"
}

@test "RISC-V, lines of 64: each is touched once, within the fences" {
    zicbom max 64
}

@test "RISC-V, lines of 128: each is touched once, within the fences" {
    zicbom max,cbom_blocksize=128 128
}

@test "RISC-V: a coherent device gets its fences" {
    emulated riscv64
    built riscv64
    traced riscv64 rv64 64 order
}

says_none='none: this CPU has no instructions by which a user program can maintain its cache'
says_named='none: this CPU does not have the instructions that COHERDMA_CACHE names'

refused() { # MODEL CLAIMS
    run -0 "$emulator" -cpu "$1" "$touch" claims
    [[ $output == "zicbom: $2" ]]
    run -3 "$emulator" -cpu "$1" "$touch" kept
    [[ $output == "$says_none" ]]
    run -3 env COHERDMA_CACHE=zicbom "$emulator" -cpu "$1" "$touch"
    [[ $output == "$says_named" ]]
}

@test "RISC-V: what is claimed and does not run is refused" {
    newer
    built riscv64
    ! "$emulator" -cpu max "$touch" || skip 'this emulator runs what it claims'
    refused max yes
}

@test "RISC-V without Zicbom: refused" {
    newer
    built riscv64
    refused max,zicbom=false no
}

@test "RISC-V whose kernel cannot say: refused" {
    emulated riscv64
    built riscv64
    "$emulator" --version | grep -qE 'version [0-7]\.' || skip 'this emulator knows hwprobe'
    refused rv64 no
}

@test "a CPU that is not written down: refused, and a fault is nobody's business" {
    emulated s390x
    built s390x
    run -3 "$emulator" "$touch" kept
    [[ $output == "$says_none" ]]
}

@test "sigaction has the layout of each CPU's kernel" {
    local cpu compiler some=''
    for cpu in x86_64 aarch64 powerpc64le riscv64 s390x; do
        compiler=$cpu-linux-gnu-g++
        command -v "$compiler" >/dev/null || continue
        "$compiler" -std=c++20 -fsyntax-only -Iibverbs-glue tests/unit/layout.cpp
        some=yes
    done
    [[ $some ]] || skip 'no compiler'
}

# faulty ARCH MODEL LINE FILE EDIT: the program with a fault put in, and traced.
faulty() {
    local SOURCES=$BATS_TEST_TMPDIR/cache INTO=$BATS_TEST_TMPDIR
    emulated "$1"
    cp -r "$cache" "$SOURCES"
    sed -i "$5" "$SOURCES/$4"
    run -1 cmp -s "$cache/$4" "$SOURCES/$4"
    built "$1"
    run -1 tests/unit/traced.py "$1" "$3" "$emulator" "$2" "$touch"
}

@test "the trace sees a size of lines that was assumed" {
    faulty aarch64 max 32 aarch64.cpp 's/return std::size_t{4} << .*/return type ? 64 : 0;/'
    [[ $output =~ 'dc cvac missed' ]]
}

@test "the trace sees a last line that is missed" {
    faulty ppc64le power9 128 lines.hpp 's/if (at == last)/if (at + line >= last)/'
    [[ $output =~ 'dcbst missed' ]]
}

@test "the trace sees a fence that is missing" {
    faulty aarch64 max 32 aarch64.cpp 's/every<dc_cvac>, dsb_sy/every<dc_cvac>, nothing/'
    [[ $output =~ 'dc cvac of '.*' not within its fences' ]]
}

@test "the trace sees a line that is written back and not dropped" {
    faulty ppc64le power9 128 ppc64le.cpp 's/dcbf 0, %0/dcbst 0, %0/'
    [[ $output =~ 'dcbf missed' ]]
}
