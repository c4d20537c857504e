#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# coherdma bench as its users meet it. No figure is judged here, only that there are some.

bats_require_minimum_version 1.5.0

tool=$BUILD/release/tools/coherdma
quick=("$tool" bench --quick --sizes '64,4k')

setup() {
    run "$tool" bench --quick --sizes 64
    [[ $status != 77 ]] || skip "$output"
}

@test "bench: a table that fits a terminal, and nothing on stderr" {
    run -0 --separate-stderr "${quick[@]}"
    [[ -z $stderr && $output == *'a coherent device'* ]]
    for line in "${lines[@]}"; do ((${#line} <= 80)); done
}

@test "bench: JSON with every choice, call, state and size; compared with itself" {
    old=$BATS_TEST_TMPDIR/old.json
    "${quick[@]}" --json >"$old"
    jq -e '.schema == 1 and (.interrupted | not) and .machine.line_bytes > 0 and
        (.figures | length) == ([.figures[].instructions] | unique | length) * 12 and
        ([.figures[].ns_per_line.p50] | all(. > 0)) and
        [.batches[].segments] == [1, 4, 16, 256]' "$old"
    run -0 --separate-stderr "${quick[@]}" --compare "$old"
    [[ ${lines[-1]} == 'verdict: '*' of '* ]]
}

@test "bench: a page that is well formed and needs nothing from elsewhere" {
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

# worked PID: it has had a second of a processor's time, however long that took: enough for a figure.
worked() {
    local fields
    read -ra fields < <(sed 's/.*) //' "/proc/$1/stat")
    ((fields[11] + fields[12] >= $(getconf CLK_TCK)))
}

@test "bench: Ctrl-C prints what there is, and status 1 says that it is not all" {
    "$tool" bench --json >"$BATS_TEST_TMPDIR/part.json" 3>&- &
    local bench=$! ended=0
    until worked "$bench"; do kill -0 "$bench"; done
    kill -INT "$bench"
    wait "$bench" || ended=$?
    ((ended == 1))
    jq -e '.interrupted and (.figures | length) > 0' "$BATS_TEST_TMPDIR/part.json"
}

@test "bench: what is wrong is said before anything is measured" {
    run -2 --separate-stderr "$tool" bench --sizes 64,4q
    [[ $stderr == *4q* ]]
    run -1 --separate-stderr "$tool" bench --compare /dev/null
    [[ $stderr == 'coherdma: /dev/null: '* && -z $output ]]
    run -1 --separate-stderr "$tool" bench --html /nowhere/page.html
    [[ $stderr == *'cannot write /nowhere/page.html'* && -z $output ]]
}
