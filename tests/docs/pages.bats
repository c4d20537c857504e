#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# What README.md and docs/ say about files and tests.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_DIRNAME/../.." || return
    mapfile -t documents < <(git ls-files '*.md')
    mapfile -t pages < <(git ls-files README.md 'docs/*.md')
}

@test "README.md has at most 80 columns, and each README at most 100 lines" {
    run -1 grep -nE '^[^|].{80}' README.md
    for document in "${documents[@]}"; do
        [[ $document != *README.md ]] || (($(wc -l <"$document") <= 100)) || { echo "$document" && return 1; }
    done
}

@test "text of the pages has at most 80 columns" {
    for page in "${pages[@]}"; do
        awk '/^```/ { code = !code } !code && !/^\|/ && length > 80 { print FILENAME ":" FNR; wide = 1 } END { exit wide }' "$page"
    done
}

@test "links lead to files and headings that exist" {
    /usr/bin/python3 - "${documents[@]}" <<'END'
import os, re, sys

def anchors(path):
    with open(path, encoding="utf-8") as file:
        headings = re.findall(r"^#+ (.*)$", file.read(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}

missing = []
for document in sys.argv[1:]:
    with open(document, encoding="utf-8") as file:
        text = re.sub(r"^```.*?^```$", "", file.read(), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        path = os.path.normpath(os.path.join(os.path.dirname(document), name)) if name else document
        if not os.path.exists(path) or (anchor and anchor not in anchors(path)):
            missing.append(f"{document}: {target}")
sys.exit("\n".join(missing) or 0)
END
}

# registered_tests: the name of each test, and the arguments of its command.
registered_tests() {
    ctest --test-dir "$BUILD" --show-only=json-v1 | jq -r '.tests[] | [.name, .command[]] | join(" ")'
}

@test "each page with commands is run by a test" {
    registered_tests >"$BATS_TEST_TMPDIR/tests"
    mapfile -t pages < <(grep -l '^```console' "${pages[@]}")
    for page in "${pages[@]}"; do
        [[ $page != docs/packages.md ]] || page='run_steps docs' # in a guest that has the packages
        grep -E "/run_page.py|/run_steps" "$BATS_TEST_TMPDIR/tests" | grep -qwF "$page" || {
            echo "no test runs $page; see tests/docs/CMakeLists.txt"
            return 1
        }
    done
}

# scenarios: the examples of the pages on faults, one in each line.
scenarios() {
    sed -n 's/^| `\([^`]*\)` | .*/\1/p' docs/faults.md
    sed -n '/^\.SS Examples/,/^\.EE/{/^\./!p}' man/coherdma/coherdma-fault.1
}

@test "scenarios of the pages are understood, and have each word of the language" {
    [[ -x $BUILD/tools/coherdma ]] || skip 'it is not built'
    mapfile -t examples < <(scenarios)
    ((${#examples[@]} > 15))
    for example in "${examples[@]}"; do
        # 2: it is not understood. Without a device, or without a fault, 77.
        run "$BUILD/tools/coherdma" fault --here "$example" -- true
        ((status == 77)) || { echo "$example: $output" && return 1; }
    done
    for word in after each every 3rd 100th % of fails fail takes event us ms s '#' ';' \
        send write read atomic receive request qp to port down for run limit; do
        scenarios | grep -qF -- "$word" || { echo "no example has $word" && return 1; }
    done
}

@test "support.md: each cell is run, emulator or not seen, and each test exists" {
    registered_tests | cut -d ' ' -f 1 >"$BATS_TEST_TMPDIR/tests"
    /usr/bin/python3 - docs/support.md "$BATS_TEST_TMPDIR/tests" <<'END'
import re, sys

page, tests = (open(path, encoding="utf-8").read().splitlines() for path in sys.argv[1:])
problems = []
rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in page if line.startswith("|")]
assert len(rows) > 20
for row in rows:
    if row[-1] == "tests" or set(row[0]) == {"-"}:
        continue
    names = re.findall(r"`([^`]*)`", row[-1])
    problems += [f"{row[0]}: no test is named {name}" for name in names if name not in tests]
    problems += [f"{row[0]}: {cell!r}" for cell in row[1:-1]
                 if cell not in ("run", "emulator", "not seen", "keep their own")]
    if any(cell in ("run", "emulator") for cell in row[1:-1]) and not names:
        problems.append(f"{row[0]}: run by no test")
sys.exit("\n".join(problems) or 0)
END
}
