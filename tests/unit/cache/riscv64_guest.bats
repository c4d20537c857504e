#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The cache instructions of RISC-V in a guest whose kernel lets programs use them; user-mode
# emulators may trap them. No cache is emulated.

bats_require_minimum_version 1.5.0

model=rv64,zicbom=true
guest=tests/unit/cache/guest.py

setup() {
    cd "$BATS_TEST_DIRNAME/../../.." || return
    ulimit -t 2000 # CPU seconds: ends an endless loop
    local status=0 why
    command -v riscv64-linux-gnu-g++ >/dev/null || skip 'no riscv64-linux-gnu-g++'
    why=$("$guest" ready 2>"$BATS_TEST_TMPDIR/steps") || status=$?
    ((status != 77)) || skip "$why"
    ((status == 0)) || return "$status"
    touch=$BATS_FILE_TMPDIR/touch
    export GUEST_INIT=$BATS_FILE_TMPDIR/init
    # Linked at another address than touch: the trace tells programs apart by address.
    [[ -x $GUEST_INIT ]] || compile "$GUEST_INIT" -Wl,-Ttext-segment=0x40000000 tests/unit/cache/init.cpp
    [[ -x $touch ]] || build_touch ibverbs-glue/cache
}

compile() { # OUT WORD...
    nice riscv64-linux-gnu-g++ -std=c++20 -O2 -static -fno-exceptions -fno-rtti -Wall -Wextra \
        -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wold-style-cast -Werror -o "$@"
}

build_touch() { # SOURCES
    compile "$touch" -I"$(dirname "$1")" tests/unit/cache/touch.cpp "$1"/{choose,fault_guard,riscv64}.cpp
}

trace() { # MODEL LINE
    run -0 nice tests/unit/cache/traced.py riscv64 "$2" "$guest" "$1" "$touch"
    printf '# %s\n' "$output" >&3
}

@test "RISC-V guest with Zicbom: chosen, data kept" {
    run -0 nice "$guest" -cpu "$model" "$touch" selftest
    [[ $output == 'ops zicbom line 64' ]]
}

# A CPU that does not set accessed bits: with a store page fault for an instruction on such a page.
svade=$model,svade=true,svadu=false

@test "RISC-V guest without updates of accessed bits: read-only memory accepted" {
    run -0 nice "$guest" -cpu "$svade" "$touch" selftest
    [[ $output == 'ops zicbom line 64' ]]
}

@test "RISC-V guest, 64-byte lines: each touched once between fences" {
    trace "$model" 64
}

@test "RISC-V guest, 128-byte lines: each touched once between fences" {
    trace "$model,cbom_blocksize=128" 128
}

@test "RISC-V guest without Zicbom: refused" {
    run -0 nice "$guest" -cpu rv64,zicbom=false "$touch" reported
    [[ $output == 'zicbom: no' ]]
    COHERDMA_CACHE=zicbom run -3 nice "$guest" -cpu rv64,zicbom=false "$touch"
    [[ $output == 'none: this CPU does not have the instructions that COHERDMA_CACHE names' ]]
}

@test "RISC-V guest: trace detects a wrong line size" {
    local cache=$BATS_TEST_TMPDIR/cache
    cp -r ibverbs-glue/cache "$cache"
    sed -i 's/return valid_line_size(hwprobe(.*/return hwprobe(HWPROBE_KEY_ZICBOM_BLOCK_SIZE) * 2;/' "$cache/riscv64.cpp"
    run -1 cmp -s {ibverbs-glue/cache,"$cache"}/riscv64.cpp
    touch=$BATS_TEST_TMPDIR/touch
    build_touch "$cache"
    run -1 nice tests/unit/cache/traced.py riscv64 64 "$guest" "$model" "$touch"
    [[ $output == *'cbo.clean missed'* ]]
}

@test "RISC-V guest: self-test detects that a page is not loaded" {
    local cache=$BATS_TEST_TMPDIR/cache
    cp -r ibverbs-glue/cache "$cache"
    sed -i 's/constexpr auto per_line_mapped = .*/constexpr auto per_line_mapped = per_line<instruction>;/' "$cache/riscv64.cpp"
    sed -i 's/^void load_byte/[[maybe_unused]] &/' "$cache/riscv64.cpp"
    run -1 cmp -s {ibverbs-glue/cache,"$cache"}/riscv64.cpp
    touch=$BATS_TEST_TMPDIR/touch
    build_touch "$cache"
    run ! nice "$guest" -cpu "$svade" "$touch" selftest
    [[ $status == 139 ]] # SIGSEGV
}
