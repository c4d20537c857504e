# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# shellcheck shell=bash
#
# Judges what the programs printed. A body of a test complains, as often as it likes; what is made
# of the complaints depends on whose parts were run: see tests/data/dat/stock-faults.

[[ ! ${FAULTS_OF_STOCK:-} ]] || return 0
source "${BASH_SOURCE[0]%/*}/dapl.bash"

FAULTS_OF_STOCK=${FAULTS:-${BASH_SOURCE[0]%/*}/../../data/dat/stock-faults}

complain() { echo "$1" >>"$out/complaints"; }

# expect SIDE PATTERN...: it printed a line like each. In one program's few lines bash finds it sooner
# than another process would.
expect() {
    local side=$1 text='' pattern wanted end=$'\n'
    shift
    IFS= read -rd '' text <"$out/$side.out" || true # to its end
    for pattern in "$@"; do
        wanted=${pattern//.\*/[^$end]*}
        [[ $wanted != ^* ]] || wanted="(^|$end)${wanted:1}"
        [[ $wanted != *[^\\]\$ ]] || wanted="${wanted%?}($end|\$)"
        [[ $text =~ $wanted ]] || complain "$side: did not say '$pattern'"
    done
}
both() {
    expect server "$@"
    expect client "$@"
}
# times SIDE COUNT PATTERN: it printed so many.
times() {
    local seen
    seen=$(grep -cE -- "$3" "$out/$1.out" || true)
    [[ $seen == "$2" ]] || complain "$1: said '$3' $seen times, not $2"
}

# excused SIDE PATTERN: lines that say no more than they have to are taken out.
excused() { sed -i -E "/$2/d" "$out/$1.out"; }

# no_trouble SIDE...: no word of trouble. What DAPL itself says of errors comes there, too.
no_trouble() {
    local side line trouble='\berr|error|fail|warning|mismatch|cannot|could ?n.t|invalid|abort|assert|unexpected|timed? ?out'
    for side in "$@"; do
        while read -r line; do complain "$side: $line"; done < <(grep -aiE "$trouble" "$out/$side.out" | head -n 5)
    done
}

# served_by_ours: those who ran had the device from our plugin, if that was asked for.
served_by_ours() {
    local side
    [[ $VERBS == ours ]] || return 0
    for side in server client; do
        [[ ! -s $out/$side.out ]] || grep -qs 'is served by coherdma' "$out/$side.verbs" ||
            complain "$side: our plugin did not serve it"
    done
}

# known_faults: the rows of the table that are about these parts and this test: when, evidence and
# words, parted by tabs.
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

# weigh: sets judgement to pass, fail, fault or again, and why.
weigh() {
    local when evidence words rows
    rows=$(known_faults)
    judgement=pass why=''
    if [[ -s $out/complaints ]]; then
        judgement=fail
        sed 's/^/server: /' "$out/server.out" >"$out/evidence"
        sed 's/^/client: /' "$out/client.out" >>"$out/evidence"
        cat "$out/complaints" >>"$out/evidence"
    fi
    while IFS=$'\t' read -r when evidence words; do
        if [[ $when && $judgement == fail ]] && grep -qaE -- "$evidence" "$out/evidence"; then
            judgement=fault why=$words
            [[ $when != again ]] || judgement=again
        elif [[ $when == always && $judgement == pass ]]; then
            judgement=fail
            complain "passed, but stock-faults says that it never does: $words"
        fi
    done <<<"$rows"
}

# held BODY...: run the body of a test, judge what it complains of, and end the test so.
held() {
    local line
    for _ in 1 2 3 4 5 6 7 8; do
        : >"$out/complaints"
        : >"$out/server.out"
        : >"$out/client.out"
        "$@"
        served_by_ours
        weigh
        [[ $judgement == again ]] || break
        echo "again: $why"
    done
    case $judgement in
    pass) return 0 ;;
    fault) skip "stock: $why" ;;
    esac
    # With no part of ours it says nothing of ours. WHOLE=1 keeps the table of what is known complete.
    [[ $REGISTRY$PROVIDER$VERBS != stockstockstock || ${WHOLE:-} == 1 ]] ||
        skip "stock, by itself, and not among its known faults: $(head -n 1 "$out/complaints")"
    while read -r line; do echo "$line"; done <"$out/complaints"
    tail -n 25 "$out"/{server,client}.out
    return 1
}
