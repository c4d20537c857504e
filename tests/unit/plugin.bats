#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# What the plugin is to a program that loads it, without a device: it needs little, shows nothing,
# says nothing, and costs little.

bats_require_minimum_version 1.5.0

setup() {
    plugin=$BUILD/release/provider/libcoherdma
    file=$plugin-rdmav34.so
    loads=$BUILD/release/tests/loads
    [[ -e $file ]] || skip "no $file: not for this machine"
}

@test "it needs libibverbs and libc alone" {
    [[ $(readelf -dW "$file" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | sort | xargs) == 'libc.so.6 libibverbs.so.1' ]]
}
@test "it exports nothing" {
    [[ -z $(nm -D --defined-only "$file") ]]
}
@test "its text is at most 64 KiB" {
    local text
    text=$(size -B "$file" | awk 'NR == 2 { print $1 }')
    echo "# $text bytes" >&3
    ((text <= 65536))
}
@test "it is there under every release's name" {
    for private in 57 59 64 65; do
        [[ $plugin-rdmav$private.so -ef $file ]]
    done
}
@test "it is loaded, and devices are listed, in silence" {
    run -0 "$loads" "$file"
    [[ -z $output ]]
}

# instructions [FILE]: of a process that loads it, or nothing.
instructions() {
    local report
    report=$(valgrind --tool=callgrind --callgrind-out-file=/dev/null "$loads" "$@" 2>&1)
    sed -n 's/.*Collected : //p' <<<"$report"
}

# Instructions are counted, so it comes out the same whatever else the machine does.
@test "to load it costs at most twice what the stock rxe provider costs" {
    local stock nothing
    stock=$(pkg-config --variable=libdir libibverbs)/libibverbs/librxe-rdmav34.so
    [[ -e $stock ]] || skip "no $stock: another libibverbs than Debian 12's"
    nothing=$(instructions)
    stock=$(instructions "$stock")
    own=$(instructions "$file")
    stock=$((stock - nothing)) own=$((own - nothing))
    echo "# instructions: stock $stock, ours $own, $((own * 100 / stock)) %" >&3
    ((stock > 0 && own <= 2 * stock))
}
