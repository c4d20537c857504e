#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Prints docs/checked-programs.md of what programs.py --json has written.

    write_findings_page.py JSON...
"""

import json
import re
import sys
from typing import Any, Dict, List, Set, Tuple

from programs import Explanation, read_explanations

BEGIN = """# Programs that were run under the checker

Programs and test suites that use RDMA, each without the checker and with
`coherdma check --protect` ([check.md](check.md)), on a device of each driver
with rdma-core's provider (dtestcm over siw with coherdma's, as it needs more
QPs than that has). No program works only without the checker. The findings are
explained in the table below. *Harmless*: the program does not use the data that
may be wrong.

This page is made by a test, which fails for a finding that it does not explain:

```
scripts/softrdma run --driver rxe -- tests/system/check/programs.py rxe --json rxe.json
scripts/test suite:check_suites # checked.*.json, in the build folder's logs
tests/system/check/write_findings_page.py *.json >docs/checked-programs.md
```

"""


def program_of(row: Dict[str, Any]) -> str:
    if row.get("is_suite"):
        return str(row["name"])
    return f"`{str(row['name']).replace(',', ' ').split()[0]}`"


def kinds_of(rows: List[Dict[str, Any]]) -> str:
    kinds: Set[str] = {kind for row in rows for kind in row["kinds"]}
    return ", ".join(sorted(kinds)) or "none"


def print_programs(documents: List[Dict[str, Any]]) -> None:
    by_program: Dict[Tuple[str, str], List[Dict[str, Any]]] = {}
    packages: Dict[str, str] = {}
    for document in documents:
        packages.update(document["packages"])
        for row in document["rows"]:
            by_program.setdefault((row["package"], program_of(row)), []).append(row)
    print("## Findings by program\n")
    print("*Runs*: with different options, on both drivers; *work*: how many of")
    print("them do, without and with the checker.\n")
    print("| package | program | runs | work | findings |")
    print("|---|---|---|---|---|")
    for (package, program), rows in by_program.items():
        works = " / ".join(str(sum(row[each] for row in rows)) for each in ("bare", "checked"))
        origin = f"{package} {packages[package]}".strip()
        print(f"| {origin} | {program} | {len(rows)} | {works} | {kinds_of(rows)} |")


def is_met(known: Explanation, documents: List[Dict[str, Any]]) -> bool:
    return any(
        known.kind in row["kinds"] and re.search(known.program, row["name"])
        for document in documents
        for row in document["rows"]
    )


def print_explanations(documents: List[Dict[str, Any]]) -> None:
    print("\n## What they are\n")
    print("| programs (a pattern) | finding | is it right? | why |")
    print("|---|---|---|---|")
    for known in read_explanations():
        if is_met(known, documents):
            pattern = known.program.replace("|", "\\|")
            print(f"| `{pattern}` | {known.kind} | {known.judgement} | {known.explanation} |")


def main() -> int:
    documents = []
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            documents.append(json.load(file))
    if not documents:
        print(__doc__, file=sys.stderr)
        return 2
    print(BEGIN, end="")
    print_programs(documents)
    print_explanations(documents)
    return 0


if __name__ == "__main__":
    sys.exit(main())
