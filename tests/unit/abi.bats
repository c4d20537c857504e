#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The abi room in a program that is linked as a plugin is, with the real libibverbs of this machine
# and of later Debian releases, and with ones that contradict themselves.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_DIRNAME/../.." || return
    program=$BUILD/release/tests/recognise
    [[ -x $program ]] || skip "no $program: not for this machine"
    log=$BATS_TEST_TMPDIR/log
}

# libraries SUITE [ARCH]: their folder is $from.
libraries() {
    local status=0
    from=$(tests/unit/libraries.py "$@" 2>"$BATS_TEST_TMPDIR/steps") || status=$?
    ((status != 77)) || skip "$from"
    return "$status"
}

# recognised STATUS COMMAND...: how it ends; its log is $words.
recognised() {
    rm -f "$log"
    run "-$1" env VERBS_LOG_LEVEL=4 VERBS_LOG_FILE="$log" "${@:2}"
    words=$(<"$log")
    printf '# %s\n' "${output:-$words}" >&3
}

# known COMMAND...: and for the release that the file's name says.
known() {
    local file=("$from"/libibverbs.so.1.*.*) release first last
    release=${file[0]#*.so.1.*.}
    recognised 0 "$@"
    [[ ${lines[0]} =~ ^rdma-core\ ([0-9]+)(\ (to|and)\ ([0-9]+))?: ]]
    first=${BASH_REMATCH[1]} last=${BASH_REMATCH[4]:-${BASH_REMATCH[1]}}
    ((first <= ${release%%.*} && ${release%%.*} <= last && ${#lines[@]} == 1))
}

# changed EXPRESSION: a copy of this machine's libibverbs, by sed, is in $BATS_TEST_TMPDIR.
changed() {
    local own
    own=$(ldd "$program" | awk '$1 == "libibverbs.so.1" { print $3 }')
    LC_ALL=C sed -b "$1" "$own" >"$BATS_TEST_TMPDIR/libibverbs.so.1"
    ! cmp -s "$own" "$BATS_TEST_TMPDIR/libibverbs.so.1" || skip 'this libibverbs has not what is to be changed'
}

# refused WORDS: that libibverbs is, with such words, and silently if nobody asks.
refused() {
    recognised 3 env LD_LIBRARY_PATH="$BATS_TEST_TMPDIR" "$program"
    [[ -z $output && $words == coherdma:*"$1"*'; devices are left to other drivers' ]]
    run -3 env LD_LIBRARY_PATH="$BATS_TEST_TMPDIR" "$program"
    [[ -z $output ]]
}

@test "abi: needs libibverbs and the C library, and of the former only what is public" {
    run -0 readelf -dW "$program"
    [[ $(grep -c NEEDED <<<"$output") == 2 ]]
    [[ $output == *'[libibverbs.so.1]'* && $output == *'[libc.so.6]'* ]]
    run -0 nm -uD "$program"
    [[ $output == *'@IBVERBS_1.'* && $output != *PRIVATE* && $output != *' _Z'* ]]
}

@test "abi: this machine's libibverbs is known for what it is" {
    from=$(dirname "$(ldd "$program" | awk '$1 == "libibverbs.so.1" { print $3 }')")
    known "$program"
    [[ $words == 'coherdma: libibverbs is of rdma-core '* ]]
}

@test "abi: that of Debian 13 is known for what it is" {
    libraries trixie
    known "$from"/ld-linux-*.so.* --library-path "$from" "$program"
}

@test "abi: that of Debian's newest is known for what it is" {
    libraries sid
    known "$from"/ld-linux-*.so.* --library-path "$from" "$program"
}

# of_arm SUITE: compiled for arm64, and emulated.
of_arm() {
    local compiler=aarch64-linux-gnu-g++
    command -v "$compiler" >/dev/null || skip "no $compiler"
    command -v qemu-aarch64 >/dev/null || skip 'no qemu-aarch64'
    libraries "$1" arm64
    nice "$compiler" -std=c++20 -O2 -fno-exceptions -fno-rtti -Wall -Wextra -Werror -nodefaultlibs \
        -Iibverbs-glue -idirafter /usr/include -o "$BATS_TEST_TMPDIR/recognise" \
        tests/unit/recognise.cpp ibverbs-glue/abi/*.cpp "$from"/libibverbs.so.1 -lc \
        -Wl,--allow-shlib-undefined
    known qemu-aarch64 "$from"/ld-linux-aarch64.so.1 --library-path "$from" \
        "$BATS_TEST_TMPDIR/recognise"
}

@test "abi: that of Debian 13 for arm64 is known for what it is" {
    of_arm trixie
}

@test "abi: that of Debian's newest for arm64 is known for what it is" {
    of_arm sid
}

@test "abi: one without a public symbol that it should have is refused" {
    changed 's/ibv_query_qp_data_in_order/ibv_query_qp_data_in_ordeR/g'
    refused 'but ibv_query_qp_data_in_order speaks against it'
}

@test "abi: one that registers drivers by an unknown name is refused" {
    changed 's/verbs_register_driver_\([0-9]\)[0-9]/verbs_register_driver_\1X/g'
    refused 'no verbs_register_driver is there of rdma-core 36 to 65'
}

@test "abi: one that looks for a queue pair's comp_mask elsewhere is refused" {
    [[ $(uname -m) == x86_64 ]] || skip 'the instruction to change is one of x86-64'
    changed 's/\xf6\x87[\x58\x60\x68]\x01\x00\x00\x02/\xf6\x87\x78\x01\x00\x00\x02/'
    refused 'but ibv_qp_to_qp_ex speaks against it'
}

@test "abi: one without a command that drivers need is refused" {
    changed 's/ibv_cmd_destroy_qp/ibv_cmd_destroy_qP/g'
    refused 'this libibverbs lacks ibv_cmd_destroy_qp'
}
