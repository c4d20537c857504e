#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The plugin as a file, without a device: its dependencies, symbols, size, output and load time.

bats_require_minimum_version 1.5.0

setup() {
    plugin=$BUILD/provider/libcoherdma
    file=$plugin-rdmav34.so
    loader=$BUILD/tests/unit/abi/loads
    [[ -e $file ]] || skip "no $file: not built for this architecture"
}

@test "plugin: needs libibverbs and libc only" {
    [[ $(readelf -dW "$file" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | sort | xargs) == 'libc.so.6 libibverbs.so.1' ]]
}
@test "plugin: exports the query and nothing else" {
    [[ $(nm -D --defined-only "$file" | awk '$2 != "A" { print $3 }') == coherdmadv_query_device@@COHERDMADV_1.0 ]]
}
@test "plugin: stays loaded after dlclose(), as libibverbs keeps its functions" {
    readelf -dW "$file" | grep -q '(FLAGS_1) .*NODELETE'
}
@test "plugin: text is at most 64 KiB" {
    local text
    text=$(size -B "$file" | awk 'NR == 2 { print $1 }')
    echo "# $text bytes" >&3
    ((text <= 65536))
}
@test "plugin: linked under the name of each libibverbs ABI" {
    for private in 57 59 64 65; do
        [[ $plugin-rdmav$private.so -ef $file ]]
    done
}
@test "plugin: loads and lists devices without output" {
    run -0 "$loader" "$file"
    [[ -z $output ]]
}

# instructions [FILE]: counts those of a process that loads FILE, or no driver.
instructions() {
    local report
    report=$(valgrind --tool=callgrind --callgrind-out-file=/dev/null "$loader" "$@" 2>&1)
    sed -n 's/.*Collected : //p' <<<"$report"
}

# Counts instructions, which do not depend on the load of the machine.
@test "plugin: load costs at most twice the instructions of librxe" {
    local librxe baseline librxe_cost plugin_cost
    librxe=$(pkg-config --variable=libdir libibverbs)/libibverbs/librxe-rdmav34.so
    [[ -e $librxe ]] || skip "no $librxe: another libibverbs than Debian 12's"
    baseline=$(instructions)
    librxe_cost=$(($(instructions "$librxe") - baseline))
    plugin_cost=$(($(instructions "$file") - baseline))
    echo "# instructions: librxe $librxe_cost, plugin $plugin_cost, $((plugin_cost * 100 / librxe_cost)) %" >&3
    ((librxe_cost > 0 && plugin_cost <= 2 * librxe_cost))
}
