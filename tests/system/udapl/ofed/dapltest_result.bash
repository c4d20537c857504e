# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# shellcheck shell=bash
#
# Classifies the output of the programs. A test body adds complaints; their consequence depends on the parts that ran:
# see tests/data/dat/stock-faults.

[[ ! ${FAULTS_OF_STOCK:-} ]] || return 0
source "${BASH_SOURCE[0]%/*}/ofed.bash"

FAULTS_OF_STOCK=${FAULTS:-${BASH_SOURCE[0]%/*}/../../../data/dat/stock-faults}

has_finding='' # that is suppressed

complain() { echo "$1" >>"$out/complaints"; }

# expect SIDE PATTERN...: it printed a line like each. In the guest, bash is faster than another process.
expect() {
    local side=$1 text pattern regex end=$'\n'
    shift
    read_text "$out/$side.out"
    for pattern in "$@"; do
        regex=${pattern//.\*/[^$end]*}
        [[ $regex != ^* ]] || regex="(^|$end)${regex:1}"
        [[ $regex != *[^\\]\$ ]] || regex="${regex%?}($end|\$)"
        [[ $text =~ $regex ]] || complain "$side: did not print '$pattern'"
    done
}
expect_both() {
    expect server "$@"
    expect client "$@"
}
# expect_times SIDE COUNT PATTERN: it printed so many such lines.
expect_times() {
    local line seen=0
    local -a lines
    mapfile -t lines <"$out/$1.out"
    for line in "${lines[@]}"; do [[ ! $line =~ $3 ]] || seen=$((seen + 1)); done
    [[ $seen == "$2" ]] || complain "$1: printed '$3' $seen times, not $2"
}

# drop_lines SIDE PATTERN: removes expected lines.
drop_lines() { ! has_printed "$@" || sed -i -E "/$2/d" "$out/$1.out"; }

# expect_no_trouble SIDE...: no error is printed, neither by the program nor by DAPL.
expect_no_trouble() {
    local side line text trouble='\berr|error|fail|warning|mismatch|cannot|could ?n.t|invalid|abort|assert|unexpected|timed? ?out'
    for side in "$@"; do
        read_text "$out/$side.out"
        [[ ${text,,} =~ $trouble ]] || continue
        while read -r line; do complain "$side: $line"; done < <(grep -aiE "$trouble" "$out/$side.out" | head -n 5)
    done
}

# expect_our_plugin: with VERBS=coherdma, our plugin served each side that ran.
expect_our_plugin() {
    local side text
    [[ $VERBS == coherdma ]] || return 0
    for side in server client; do
        [[ -s $out/$side.out ]] || continue
        text=''
        [[ ! -e $out/$side.verbs ]] || read_text "$out/$side.verbs"
        [[ $text == *'is served by coherdma'* ]] || complain "$side: our plugin did not serve its device"
    done
}

# suppress_peer_access [FILE]: with COHERDMA_EMULATE, allow findings about memory that a peer accesses. There must be
# one, unless has_finding is set to nothing afterwards.
suppress_peer_access() {
    export COHERDMA_EMULATE_SUPPRESS=${BASH_SOURCE[0]%/*}/${1:-peer_access.supp}
    has_finding=yes
}
# expect_no_finding: with COHERDMA_EMULATE, each side that ran was emulated and ended without a finding, or with
# those only that are suppressed.
expect_no_finding() {
    local side suppressed=''
    [[ ${COHERDMA_EMULATE:-} ]] || return 0
    for side in server client; do
        [[ -s $out/$side.out ]] || continue
        expect $side '^coherdma: emulation: no findings$'
        ! has_printed $side '^ +[1-9][0-9]* +suppressed +not counted above$' || suppressed=yes
    done
    [[ ! $has_finding || $suppressed ]] ||
        complain "no finding that ${COHERDMA_EMULATE_SUPPRESS##*/} suppresses"
}

# known_faults: the table's rows for these parts and this test: when, evidence and reason, separated by tabs.
known_faults() {
    awk -F '  +' -v OFS='\t' -v parts="$REGISTRY $PROVIDER $VERBS $DRIVER" -v test="$BATS_TEST_DESCRIPTION" '
        /^#/ || NF == 0 { next }
        NF != 5 { print "malformed row: " $0 >"/dev/stderr"; exit 1 }
        {
            split($1, wanted, " "); split(parts, given, " ")
            for (i in given) if (wanted[i] != "*" && wanted[i] != given[i]) next
            if (test ~ "^(" $2 ")$") print $3, $4, $5
        }' "$FAULTS_OF_STOCK"
}

# classify_complaints ROWS: with these known faults; sets outcome to pass, fail, fault or again, and why.
classify_complaints() {
    local when evidence words
    outcome=pass why=''
    if [[ -s $out/complaints ]]; then
        outcome=fail
        sed 's/^/server: /' "$out/server.out" >"$out/evidence"
        sed 's/^/client: /' "$out/client.out" >>"$out/evidence"
        cat "$out/complaints" >>"$out/evidence"
    fi
    while IFS=$'\t' read -r when evidence words; do
        if [[ $when && $outcome == fail ]] && grep -qaE -- "$evidence" "$out/evidence"; then
            outcome=fault why=$words
            [[ $when != again ]] || outcome=again
        elif [[ $when == always && $outcome == pass ]]; then
            outcome=fail
            complain "passed, but stock-faults has it as always failing: $words"
        fi
    done <<<"$1"
}

# run_with_known_faults BODY...: run the body of a test, classify its complaints, and end the test with the outcome.
run_with_known_faults() {
    local line rows
    rows=$(known_faults)
    # Where a known fault is a hang, it is ended sooner.
    [[ ! $rows =~ not\ done\ within|stays\ when\ its\ client\ has\ gone ]] || LIMIT=120
    for _ in 1 2 3 4 5 6 7 8; do
        : >"$out/complaints"
        : >"$out/server.out"
        : >"$out/client.out"
        "$@"
        expect_our_plugin
        expect_no_finding
        classify_complaints "$rows"
        [[ $outcome == again ]] || break
        echo "again: $why"
    done
    case $outcome in
    pass) return 0 ;;
    fault) skip "stock: $why" ;;
    esac
    # Without a part of ours it proves nothing about ours. With WHOLE=1 the table must be complete.
    [[ $REGISTRY$PROVIDER$VERBS != stockstockstock || ${WHOLE:-} == 1 ]] ||
        skip "stock parts only, not in stock-faults: $(head -n 1 "$out/complaints")"
    while read -r line; do echo "$line"; done <"$out/complaints"
    sed -n '/^coherdma: [A-Z ]*: /,+4p' "$out"/{server,client}.out # findings
    tail -n 25 "$out"/{server,client}.out
    return 1
}
