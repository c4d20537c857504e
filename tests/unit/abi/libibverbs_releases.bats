#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Detection of the libibverbs release in a program linked like a plugin: with the libibverbs of this
# machine and of later Debian releases, and with altered copies.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_DIRNAME/../../.." || return
    program=$BUILD/tests/unit/abi/recognize
    [[ -x $program ]] || skip "no $program: not built for this architecture"
    log=$BATS_TEST_TMPDIR/log
}

# fetch_libraries SUITE [ARCH]: sets $folder to their folder.
fetch_libraries() {
    local status=0
    folder=$(tests/debian/libraries.py "$@" 2>"$BATS_TEST_TMPDIR/steps") || status=$?
    ((status != 77)) || skip "$folder"
    return "$status"
}

# run_logged STATUS COMMAND...: sets $messages to its log.
run_logged() {
    rm -f "$log"
    run "-$1" env VERBS_LOG_LEVEL=4 VERBS_LOG_FILE="$log" "${@:2}"
    messages=$(<"$log")
    printf '# %s\n' "${output:-$messages}" >&3
}

# assert_recognized COMMAND...: detects the release in the name of the library's file.
assert_recognized() {
    local file=("$folder"/libibverbs.so.1.*.*) release first last
    release=${file[0]#*.so.1.*.}
    run_logged 0 "$@"
    [[ ${lines[0]} =~ ^rdma-core\ ([0-9]+)(\ (to|and)\ ([0-9]+))?: ]]
    first=${BASH_REMATCH[1]} last=${BASH_REMATCH[4]:-${BASH_REMATCH[1]}}
    ((first <= ${release%%.*} && ${release%%.*} <= last && ${#lines[@]} == 1))
}

# alter_library EXPRESSION: puts a copy of this machine's libibverbs, edited by sed, in $BATS_TEST_TMPDIR.
alter_library() {
    local installed
    installed=$(ldd "$program" | awk '$1 == "libibverbs.so.1" { print $3 }')
    LC_ALL=C sed -b "$1" "$installed" >"$BATS_TEST_TMPDIR/libibverbs.so.1"
    ! cmp -s "$installed" "$BATS_TEST_TMPDIR/libibverbs.so.1" || skip 'no such bytes in this libibverbs'
}

# assert_refused TEXT: exit code 3, TEXT in the log, and no other output.
assert_refused() {
    run_logged 3 env LD_LIBRARY_PATH="$BATS_TEST_TMPDIR" "$program"
    [[ -z $output && $messages == coherdma:*"$1"*'; leaving devices to other providers' ]]
    run -3 env LD_LIBRARY_PATH="$BATS_TEST_TMPDIR" "$program"
    [[ -z $output ]]
}

@test "recognize: links libibverbs and libc only, and public symbols only" {
    run -0 readelf -dW "$program"
    [[ $(grep -c NEEDED <<<"$output") == 2 ]]
    [[ $output == *'[libibverbs.so.1]'* && $output == *'[libc.so.6]'* ]]
    run -0 nm -uD "$program"
    [[ $output == *'@IBVERBS_1.'* && $output != *PRIVATE* && $output != *' _Z'* ]]
}

@test "libibverbs of this machine: release is recognized" {
    folder=$(dirname "$(ldd "$program" | awk '$1 == "libibverbs.so.1" { print $3 }')")
    assert_recognized "$program"
    [[ $messages == 'coherdma: detected libibverbs of rdma-core '* ]]
}

@test "libibverbs of Debian 13: release is recognized" {
    fetch_libraries trixie
    assert_recognized "$folder"/ld-linux-*.so.* --library-path "$folder" "$program"
}

@test "libibverbs of Debian sid: release is recognized" {
    fetch_libraries sid
    assert_recognized "$folder"/ld-linux-*.so.* --library-path "$folder" "$program"
}

# run_arm64 SUITE: compiles the program for arm64 and runs it with QEMU.
run_arm64() {
    local compiler=aarch64-linux-gnu-g++
    command -v "$compiler" >/dev/null || skip "no $compiler"
    command -v qemu-aarch64 >/dev/null || skip 'no qemu-aarch64'
    fetch_libraries "$1" arm64
    nice "$compiler" -std=c++20 -O2 -fno-exceptions -fno-rtti -Wall -Wextra -Werror -nodefaultlibs \
        -Iibverbs-glue -idirafter /usr/include -o "$BATS_TEST_TMPDIR/recognize" \
        tests/unit/abi/recognize.cpp ibverbs-glue/abi/*.cpp "$folder"/libibverbs.so.1 -lc \
        -Wl,--allow-shlib-undefined
    assert_recognized qemu-aarch64 "$folder"/ld-linux-aarch64.so.1 --library-path "$folder" \
        "$BATS_TEST_TMPDIR/recognize"
}

@test "libibverbs of Debian 13 arm64: release is recognized" {
    run_arm64 trixie
}

@test "libibverbs of Debian sid arm64: release is recognized" {
    run_arm64 sid
}

@test "libibverbs without an expected public symbol: refused" {
    alter_library 's/ibv_query_qp_data_in_order/ibv_query_qp_data_in_ordeR/g'
    assert_refused 'but ibv_query_qp_data_in_order differs'
}

@test "libibverbs with an unknown verbs_register_driver: refused" {
    alter_library 's/verbs_register_driver_\([0-9]\)[0-9]/verbs_register_driver_\1X/g'
    assert_refused 'no verbs_register_driver symbol of rdma-core 36 to 65'
}

@test "libibverbs with another comp_mask offset in verbs_qp: refused" {
    [[ $(uname -m) == x86_64 ]] || skip 'alters an x86-64 instruction'
    alter_library 's/\xf6\x87[\x58\x60\x68]\x01\x00\x00\x02/\xf6\x87\x78\x01\x00\x00\x02/'
    assert_refused 'but ibv_qp_to_qp_ex differs'
}

@test "libibverbs without ibv_cmd_destroy_qp: refused" {
    alter_library 's/ibv_cmd_destroy_qp/ibv_cmd_destroy_qP/g'
    assert_refused 'libibverbs lacks ibv_cmd_destroy_qp'
}
