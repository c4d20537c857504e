#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Writes docs/programs.md from the results of battery.py.

    write_page.py BATTERY-RXE.JSON BATTERY-SIW.JSON >docs/programs.md
    write_page.py --check    whether the page has the rows of rows.py, and none that works with stock only
"""

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any, Dict, List, Tuple

from battery import PAGE, PROVIDERS, TRIES, page_rows, works
from rows import all_rows

SIDE = re.compile("^((server|client): )+")  # a refusal may reach either first
HEAD = """\
# Programs that were run with the provider

Programs of Debian that use RDMA, on a device of each driver, with rdma-core's
provider (*stock*) and with coherdma's (*ours*). A program *works* if it ends
with status 0 and prints the result of its work. Where the two providers
differ, each has {tries} runs, and the cell is the number of those that worked:
some programs fail at random with either. The last column is what a program
that does not work prints, or the cause if it is known.

This page is made by a test, which fails if a program works with stock and not
with ours:

```
scripts/test -k '^provider.battery.(rxe|siw)$'
cd build/release/logs
{script} battery-*.json >../../../docs/programs.md
```

The lab's kernel {kernel}. {summary}
"""
TABLE = """
## {package} {version}

| program | rxe, stock | rxe, ours | siw, stock | siw, ours | why not |
|---|---|---|---|---|---|
"""


def cell(result: Dict[str, Any]) -> str:
    passed, tries = result["passed"], result["tries"]
    if 0 < passed < tries or tries > 1:
        return f"{passed} of {tries}"
    return "yes" if passed else "no"


def reasons(driver: str, sides: Dict[str, Dict[str, Any]]) -> List[Tuple[str, str]]:
    """Why a program does not work, after where: the driver, or the driver and provider if the other differs."""
    texts = {provider: SIDE.sub("", side["reason"]) for provider, side in sides.items()}
    if len(set(texts.values())) == 1:
        return [(driver, text) for text in set(texts.values()) if text]
    return [(f"{driver}, {provider}", text) for provider, text in texts.items() if text]


def table_row(name: str, by_driver: Dict[str, Any]) -> str:
    cells: List[str] = []
    why: List[Tuple[str, str]] = []
    for driver, row in by_driver.items():
        if "left_out" in row:
            cells += ["left out"] * len(PROVIDERS)
            why.append((driver, row["left_out"]))
            continue
        if PROVIDERS[0] not in row:
            cells += ["not installed"] * len(PROVIDERS)
            continue
        sides = {provider: row[provider] for provider in PROVIDERS}
        cells += [cell(side) for side in sides.values()]
        why += reasons(driver, sides)
    places: Dict[str, List[str]] = {}
    for place, text in why:
        places.setdefault(text, []).append(place)
    notes = [f"{' and '.join(names)}: {text}" for text, names in places.items()]
    line = " | ".join([f"`{name}`", *cells, "; ".join(notes).replace("|", "\\|")])
    return f"| {line.rstrip()} |".replace("<", "&lt;")


def write_page(runs: Dict[str, Any]) -> str:
    """runs: the document of each driver."""
    rows = {
        driver: {(row["package"], row["name"]): row for row in document["rows"]}
        for driver, document in runs.items()
    }
    counts = []
    for driver, by_name in rows.items():
        run = [row for row in by_name.values() if PROVIDERS[0] in row]
        passed = [sum(row[provider]["passed"] > 0 for row in run) for provider in PROVIDERS]
        counts.append(f"{driver}: of {len(run)} rows {passed[0]} with stock, {passed[1]} with ours")
    first = next(iter(runs.values()))
    text = HEAD.format(
        tries=TRIES,
        script="../../../tests/system/provider/battery/write_page.py",
        kernel=first["kernel"],
        summary="Rows that work:\n\n" + "\n".join(f"- {count}" for count in counts),
    )
    for package, version in first["packages"].items():
        text += TABLE.format(package=package, version=version)
        for key in next(iter(rows.values())):
            if key[0] == package:
                text += table_row(key[1], {driver: rows[driver][key] for driver in rows}) + "\n"
    return text


def check_page(text: str) -> List[str]:
    """What is wrong with the page."""
    rows = list(page_rows(text))
    shown, named = {name for _, name, _ in rows}, {row.name for row in all_rows()}
    wrong = [f"no row: {name}" for name in sorted(named - shown)]
    wrong += [f"not in rows.py: {name}" for name in sorted(shown - named)]
    for _, name, cells in rows:
        if any(works(cells[k]) and not works(cells[k + 1]) for k in (0, 2)):
            wrong.append(f"works with stock only: {name}")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true", help="check docs/programs.md")
    parser.add_argument("results", nargs="*", metavar="RESULTS", help="of battery.py --json")
    options = parser.parse_args()
    if options.check == bool(options.results):
        parser.error("needs either --check or RESULTS")
    if options.check:
        wrong = check_page(PAGE.read_text(encoding="utf-8"))
        print("\n".join(wrong))
        return 1 if wrong else 0
    documents = [json.loads(Path(path).read_text(encoding="utf-8")) for path in options.results]
    print(write_page({document["driver"]: document for document in documents}), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
