#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The cache instructions of RISC-V in a guest with a kernel of its own, which lets programs use them:
# emulators of single programs keep programs from them. No cache here either.

bats_require_minimum_version 1.5.0

model=rv64,zicbom=true
guest=tests/unit/guest.py

setup() {
    cd "$BATS_TEST_DIRNAME/../.." || return
    ulimit -t 200 # a loop that does not end
    local status=0 why
    command -v riscv64-linux-gnu-g++ >/dev/null || skip 'no riscv64-linux-gnu-g++'
    why=$("$guest" ready 2>"$BATS_TEST_TMPDIR/steps") || status=$?
    ((status != 77)) || skip "$why"
    ((status == 0)) || return "$status"
    touch=$BATS_FILE_TMPDIR/touch
    export FIRST=$BATS_FILE_TMPDIR/first
    # Away from the places of the other program, for the trace tells them by their places.
    [[ -x $FIRST ]] || compiled "$FIRST" -Wl,-Ttext-segment=0x40000000 tests/unit/first.cpp
    [[ -x $touch ]] || touch_of ibverbs-glue/cache
}

compiled() { # OUT WORD...
    nice riscv64-linux-gnu-g++ -std=c++20 -O2 -static -fno-exceptions -fno-rtti -Wall -Wextra \
        -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wold-style-cast -Werror -o "$@"
}

touch_of() { # SOURCES
    compiled "$touch" -I"$(dirname "$1")" tests/unit/touch.cpp "$1"/{choose,guard,riscv64}.cpp
}

traced() { # MODEL LINE
    run -0 nice tests/unit/traced.py riscv64 "$2" "$guest" "$1" "$touch"
    printf '# %s\n' "$output" >&3
}

@test "a guest with Zicbom: it is chosen, and nothing is lost" {
    run -0 nice "$guest" -cpu "$model" "$touch" kept
    [[ $output == 'path zicbom line 64' ]]
}

@test "a guest with Zicbom, lines of 64: each is touched once, within the fences" {
    traced "$model" 64
}

@test "a guest with Zicbom, lines of 128: each is touched once, within the fences" {
    traced "$model,cbom_blocksize=128" 128
}

@test "a guest without Zicbom: refused" {
    run -0 nice "$guest" -cpu rv64,zicbom=false "$touch" claims
    [[ $output == 'zicbom: no' ]]
    COHERDMA_CACHE=zicbom run -3 nice "$guest" -cpu rv64,zicbom=false "$touch"
    [[ $output == 'none: this CPU does not have the instructions that COHERDMA_CACHE names' ]]
}

@test "a guest with Zicbom: the trace sees a size of lines that was assumed" {
    local cache=$BATS_TEST_TMPDIR/cache
    cp -r ibverbs-glue/cache "$cache"
    sed -i 's/return power_of_two(probe(.*/return probe(ZICBOM_BLOCK_SIZE) * 2;/' "$cache/riscv64.cpp"
    run -1 cmp -s {ibverbs-glue/cache,"$cache"}/riscv64.cpp
    touch=$BATS_TEST_TMPDIR/touch
    touch_of "$cache"
    run -1 nice tests/unit/traced.py riscv64 64 "$guest" "$model" "$touch"
    [[ $output == *'cbo.clean missed'* ]]
}
