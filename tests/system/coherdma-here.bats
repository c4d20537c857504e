#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The coherdma command on any machine: help, manual and completion agree, misuse is told.

bats_require_minimum_version 1.5.0
tool=$BUILD/release/tools/coherdma
top=$BATS_TEST_DIRNAME/../..

subcommands() { "$tool" --help | sed -n '/^Subcommands:/,$s/^  \([a-z]\+\) .*/\1/p'; }

@test "help: there is some, in 80 columns, and the manual has each option" {
    [[ $(subcommands | wc -l) -ge 3 ]]
    for command in '' $(subcommands); do
        # shellcheck disable=SC2086
        run -0 --separate-stderr "$tool" $command --help
        [[ -z $stderr ]]
        for line in "${lines[@]}"; do ((${#line} <= 80)) || { echo "$line" && return 1; }; done
        grep -oE -- '--[a-z][a-z-]+' <<<"$output" | sort -u | while read -r option; do
            grep -qF -- "${option//-/\\-}" "$top/man/coherdma.1" || { echo "not in coherdma(1): $option" && return 1; }
        done
        [[ -z $command ]] || grep -q "^.SH COHERDMA ${command^^}" "$top/man/coherdma.1"
    done
}

@test "misuse is 2, with where help is" {
    for words in nonsense 'show --nonsense' explain 'explain a b'; do
        # shellcheck disable=SC2086
        run -2 --separate-stderr "$tool" $words
        [[ -z $output && $stderr == coherdma:*'see: coherdma --help' ]]
    done
}

@test "show: without a device it says so" {
    [[ ! -e /sys/class/infiniband ]] || skip 'this machine has RDMA'
    run -0 --separate-stderr "$tool"
    [[ $output == 'There is no RDMA device'* && $output == *'coherdma doctor' ]]
    run -0 --separate-stderr "$tool" show --json
    [[ $(jq -c .devices <<<"$output") == '[]' ]]
    run -1 --separate-stderr "$tool" show rxe0
    [[ -z $output && $stderr == *"no RDMA device 'rxe0'"* ]]
}

@test "an answer that cannot be written is a failure" {
    [[ -w /dev/full ]] || skip 'no /dev/full'
    run -1 bash -c "'$tool' show >/dev/full"
    [[ $output == *'cannot write the answer'* ]]
}

@test "completion: subcommands and options" {
    PATH=${tool%/*}:$PATH
    source "$top/completions/coherdma"
    COMP_WORDS=(coherdma doc) COMP_CWORD=1
    _coherdma
    [[ ${COMPREPLY[*]} == doctor ]]
    COMP_WORDS=(coherdma explain --p) COMP_CWORD=2
    _coherdma
    [[ ${COMPREPLY[*]} == --probe ]]
}
