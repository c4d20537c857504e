#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# coherdma bench: its output, not the measured times.

bats_require_minimum_version 1.5.0

tool=$BUILD/tools/coherdma
quick=("$tool" bench --quick --sizes '64,4k')

setup() {
    run "$tool" bench --quick --sizes 64
    [[ $status != 77 ]] || skip "$output"
}

@test "bench: table fits 80 columns, stderr is empty" {
    run -0 --separate-stderr "${quick[@]}"
    [[ -z $stderr && $output == *'a coherent device'* ]]
    for line in "${lines[@]}"; do ((${#line} <= 80)); done
}

@test "bench: --json has every choice and call, --compare reads it" {
    old=$BATS_TEST_TMPDIR/old.json
    "${quick[@]}" --json >"$old"
    jq -e '.schema == 1 and (.interrupted | not) and .machine.line_size > 0 and
        (.timings | length) == ([.timings[].instructions] | unique | length) * 12 + 18 and
        ([.timings[].call] | unique | length) == 5 and
        ([.timings[].ns_per_line.p50] | all(. > 0)) and
        [.scattered[].ranges] == [1, 4, 16, 256]' "$old"
    run -0 --separate-stderr "${quick[@]}" --compare "$old"
    [[ ${lines[-1]} == 'in total: '*' of '* ]]
}

@test "bench: --quick takes enough samples of large ranges for a median" {
    "${quick[@]:0:3}" --sizes 64K,16M --json >"$BATS_TEST_TMPDIR/large.json"
    jq -e '.options.sizes == [65536, 16777216] and ([.timings[].bytes] | unique) == .options.sizes and
        ([.timings[].ns_per_line.samples] | all(. >= 15))' "$BATS_TEST_TMPDIR/large.json"
}

@test "bench: --html page is well formed and self-contained" {
    page=$BATS_TEST_TMPDIR/page.html
    run -0 "${quick[@]}" --html "$page"
    run -0 /usr/bin/python3 -c '
import html.parser, sys
class Page(html.parser.HTMLParser):
    seen = set()
    open = []
    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        if tag not in ("meta",):
            self.open.append(tag)
        assert not {"src", "href"} & {name for name, _ in attrs}, attrs
    def handle_startendtag(self, tag, attrs):
        self.seen.add(tag)
    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag
page = Page()
page.feed(open(sys.argv[1]).read())
assert not page.open and {"svg", "polyline", "table", "footer"} <= page.seen, page.seen
assert "script" not in page.seen' "$page"
}

# used_cpu_second PID: succeeds when the process has used one second of CPU time, enough for one result.
used_cpu_second() {
    local fields
    read -ra fields < <(sed 's/.*) //' "/proc/$1/stat")
    ((fields[11] + fields[12] >= $(getconf CLK_TCK)))
}

@test "bench: SIGINT prints partial results, status 1" {
    "$tool" bench --json >"$BATS_TEST_TMPDIR/part.json" 3>&- &
    local bench=$! ended=0
    until used_cpu_second "$bench"; do kill -0 "$bench"; done
    kill -INT "$bench"
    wait "$bench" || ended=$?
    ((ended == 1))
    jq -e '.interrupted and (.timings | length) > 0' "$BATS_TEST_TMPDIR/part.json"
}

@test "bench: invalid options fail before the measurement" {
    run -2 --separate-stderr "$tool" bench --sizes 64,4q
    [[ $stderr == *4q* ]]
    run -1 --separate-stderr "$tool" bench --compare /dev/null
    [[ $stderr == 'coherdma: /dev/null: '* && -z $output ]]
    local page=$BATS_TEST_TMPDIR/missing/page.html
    run -1 --separate-stderr "$tool" bench --html "$page"
    [[ $stderr == *"cannot write $page"* && -z $output ]]
}
