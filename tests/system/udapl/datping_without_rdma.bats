#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# datping and datinfo on any machine: help, manual page and completion agree; misuse and a machine without RDMA
# are reported.

bats_require_minimum_version 1.5.0
ping=$BUILD/tools/datping/datping
info=$BUILD/tools/datinfo/datinfo
top=$BATS_TEST_DIRNAME/../../..

setup() {
    export DAT_OVERRIDE=$BATS_TEST_TMPDIR/dat.conf
    : >"$DAT_OVERRIDE"
}

@test "option --help prints 80 columns; the manual pages have the same options" {
    for tool in "$ping" "$info"; do
        run -0 --separate-stderr "$tool" --help
        [[ -z $stderr ]]
        (($(wc -L <<<"$output") <= 80))
        manual=$top/man/dat/${tool##*/}.1
        diff <(grep -oE -- '--[a-z][a-z-]+' <<<"$output" | sort -u) \
            <(sed -n '/^.SH OPTIONS/,/^.SH EXIT/p' "$manual" | grep -A 1 '^.TP' | grep -oE -- '\\-\\-[a-z\-]+' |
                sed 's/[^a-z-]//g' | sort -u)
        run -0 "$tool" --version
        [[ $output =~ ^"${tool##*/} "[0-9.]+$ ]]
    done
}

@test "misuse: status 2 and a pointer to --help" {
    for words in '' 'a b' '-s host' '-S 0 host' '-S 2G host' '-m bogus host' '-i -1 host' '-t 0 host' '-p 0 host' \
        '-p x host' '-c -1 host' '--poll --wait host' '--verify --no-verify host' '--once host' '-s -c 1' '-s -m all' \
        '-s --no-verify' '-q -v host' '-c 99999999999999999999 host' '-c 9223372036854775808 host' '-p 18446744073709551616 host' '-p -1 host' \
        '--bogus'; do
        # shellcheck disable=SC2086
        run -2 --separate-stderr "$ping" $words
        [[ -z $output && $stderr == 'datping: '*'; see: datping --help' ]] || { echo "$words: $stderr" && return 1; }
    done
    run -2 --separate-stderr "$ping" -I '' host
    [[ -z $output && $stderr == 'datping: --ia: must not be empty; see: datping --help' ]]
    for name in count timeout; do
        run -2 --separate-stderr "$ping" --$name '' host
        [[ -z $output && $stderr == "datping: --$name: must not be empty; see: datping --help" ]]
    done
    for words in --bogus '--conf x' '--conf --json' '--conf --all' '--all x'; do
        # shellcheck disable=SC2086
        run -2 --separate-stderr "$info" $words
        [[ -z $output && $stderr == 'datinfo: '*'; see: datinfo --help' ]]
    done
}

@test "datping reports an unknown host" {
    run -1 --separate-stderr "$ping" nobody.invalid
    [[ -z $output && $stderr == 'datping: nobody.invalid: '* ]]
    run -1 --separate-stderr "$ping" nobody.invalid --json
    [[ $(jq -r .problem <<<"$output") == 'nobody.invalid: '* ]]
}

@test "without an IA: status 77 and a message" {
    [[ ! -e /sys/class/infiniband ]] || skip 'this machine has RDMA'
    for words in -s 192.0.2.1; do
        run -77 --separate-stderr "$ping" "$words"
        [[ -z $output && $stderr == 'datping: there is no IA on this machine; type: datinfo' ]]
    done
    run -77 --separate-stderr "$ping" 192.0.2.1 --json
    [[ $(jq -r .problem <<<"$output") == 'there is no IA'* ]]
    run -0 --separate-stderr "$info"
    [[ $output == 'No IA is registered'*'coherdma doctor'* ]]
    (($(wc -L <<<"$output") <= 80))
    run -0 --separate-stderr "$info" --json
    [[ $(jq -c .ias <<<"$output") == '[]' ]]
    source "$top/completions/datinfo"
    COMP_WORDS=("$info" '') COMP_CWORD=1
    _datinfo
    ((${#COMPREPLY[@]} == 0))
    run -77 --separate-stderr "$info" --conf
    [[ -z $output && $stderr == 'datinfo: there is no RDMA device'* ]]
}

@test "datinfo prints IAs that cannot be opened, each reason once" {
    for name in one two; do
        echo "$name u2.0 nonthreadsafe default libnosuch.so.2 x.2.0 \"\" \"\"" >>"$DAT_OVERRIDE"
    done
    run -0 --separate-stderr "$info"
    [[ $output == $'No IA can be opened.\nCannot be opened: 2 names; for the reasons, type: datinfo --all' ]]
    run -0 --separate-stderr "$info" --all
    [[ $output == *'Cannot be opened:'*'  one, two'*DAT_PROVIDER_NOT_FOUND* ]]
    run -1 --separate-stderr "$info" one
    [[ -z $output && $stderr == 'datinfo: one: DAT_PROVIDER_NOT_FOUND'* ]]
    run -1 --separate-stderr "$info" three
    [[ $stderr == 'datinfo: no IA is named three'* ]]
    run -1 --separate-stderr "$ping" -I three 192.0.2.1
    [[ $stderr == 'datping: no IA is named three; there are: one, two'* ]]
    [[ ! -e /sys/class/infiniband ]] || skip 'this machine has RDMA'
    run -77 --separate-stderr "$ping" 192.0.2.1
    [[ $stderr == 'datping: no IA can be opened: one, two; '* ]]
}

@test "datinfo --all prints the reason of each of many IAs" {
    for name in one two three four five six seven eight nine; do
        echo "$name u2.0 nonthreadsafe default libnosuch.so.2 x.2.0 \"\" \"\"" >>"$DAT_OVERRIDE"
    done
    echo 'old u1.2 nonthreadsafe default libnosuch.so.2 x.1.2 "" ""' >>"$DAT_OVERRIDE"
    run -0 --separate-stderr "$info"
    [[ ${lines[1]} == 'Cannot be opened: 10 names;'* && $output != *PROVIDER* ]]
    run -0 --separate-stderr "$info" --all
    [[ $output == *$'\n  one, two, three, four, five, six, seven, eight, nine\n    DAT_PROVIDER_NOT_FOUND'* ]]
    [[ $output == *$'\n  old\n    only for programs of uDAPL 1.2; datinfo is one of 2.0' ]]
}

@test "output of a provider library does not mix with the answer" {
    [[ ! -e /sys/class/infiniband ]] || skip 'this machine has RDMA'
    echo 'x u2.0 nonthreadsafe default libdaplofa.so.2 x.2.0 "nosuch0 0" ""' >"$DAT_OVERRIDE"
    run -77 --separate-stderr "$ping" -j 192.0.2.1
    jq -e .schema <<<"$output"
    [[ $stderr == *'No such device. Is nosuch0 configured?'* ]]
}

@test "an answer that cannot be written: status 1 and a message" {
    [[ -w /dev/full ]] || skip 'no /dev/full'
    run -1 bash -c "'$info' >/dev/full"
    [[ $output == *'cannot write the output'* ]]
    run -1 bash -c "'$ping' --json nobody.invalid >/dev/full"
    [[ $output == *'cannot write the output'* ]]
}

@test "shell completion offers options and modes" {
    PATH=${ping%/*}:${info%/*}:$PATH
    source "$top/completions/datping"
    COMP_WORDS=(datping -m p) COMP_CWORD=2
    _datping
    [[ ${COMPREPLY[*]} == pingpong ]]
    COMP_WORDS=(datping --no) COMP_CWORD=1
    _datping
    [[ ${COMPREPLY[*]} == --no-verify ]]
    source "$top/completions/datinfo"
    COMP_WORDS=(datinfo --c) COMP_CWORD=1
    _datinfo
    [[ ${COMPREPLY[*]} == --conf ]]
}
