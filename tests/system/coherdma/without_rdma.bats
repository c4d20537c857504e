#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The coherdma command on any machine: help, manual page and completion agree, misuse is reported.

bats_require_minimum_version 1.5.0
tool=$BUILD/tools/coherdma
top=$BATS_TEST_DIRNAME/../../..

subcommands() { "$tool" --help | sed -n '/^Subcommands:/,$s/^  \([a-z]\+\) .*/\1/p'; }

@test "option --help of each subcommand prints 80 columns; the manual page has each option" {
    [[ $(subcommands | wc -l) -ge 3 ]]
    for command in '' $(subcommands); do
        # shellcheck disable=SC2086
        run -0 --separate-stderr "$tool" $command --help
        [[ -z $stderr ]]
        for line in "${lines[@]}"; do ((${#line} <= 80)) || { echo "$line" && return 1; }; done
        grep -oE -- '--[a-z][a-z-]+' <<<"$output" | sort -u | while read -r option; do
            grep -qF -- "${option//-/\\-}" "$top/man/coherdma/coherdma.1" || { echo "not in coherdma(1): $option" && return 1; }
        done
        [[ -z $command ]] || grep -q "^.SH COHERDMA ${command^^}" "$top/man/coherdma/coherdma.1"
    done
}

@test "misuse: status 2 and a pointer to --help" {
    for words in bogus 'show --bogus' explain 'explain a b' selftest 'selftest a b' 'selftest a --once' \
        'selftest a --peer b:0' 'selftest a --listen --json' 'selftest a --listen --peer b' 'selftest a --rounds 0'; do
        # shellcheck disable=SC2086
        run -2 --separate-stderr "$tool" $words
        [[ -z $output && $stderr == coherdma:*'see: coherdma --help' ]]
    done
}

@test "show reports that there is no device" {
    [[ ! -e /sys/class/infiniband ]] || skip 'this machine has RDMA'
    run -0 --separate-stderr "$tool"
    [[ $output == 'There is no RDMA device'* && $output == *'coherdma doctor' ]]
    run -0 --separate-stderr "$tool" show --json
    [[ $(jq -c .devices <<<"$output") == '[]' ]]
    run -1 --separate-stderr "$tool" show rxe0
    [[ -z $output && $stderr == *"no RDMA device 'rxe0'"* ]]
}

@test "selftest without a device: status 77" {
    [[ ! -e /sys/class/infiniband ]] || skip 'this machine has RDMA'
    for option in '' --json --listen; do
        # shellcheck disable=SC2086
        run -77 --separate-stderr "$tool" selftest rxe0 $option
        [[ -z $output && $stderr == 'coherdma: there is no RDMA device; for a diagnosis, type: coherdma doctor' ]]
    done
}

@test "an answer that cannot be written: status 1 and a message" {
    [[ -w /dev/full ]] || skip 'no /dev/full'
    run -1 bash -c "'$tool' show >/dev/full"
    [[ $output == *'cannot write the output'* ]]
}

@test "shell completion offers subcommands and options" {
    PATH=${tool%/*}:$PATH
    source "$top/completions/coherdma"
    COMP_WORDS=(coherdma doc) COMP_CWORD=1
    _coherdma
    [[ ${COMPREPLY[*]} == doctor ]]
    COMP_WORDS=(coherdma explain --p) COMP_CWORD=2
    _coherdma
    [[ ${COMPREPLY[*]} == --probe ]]
}
