#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Fails if the table of a connection's states in udapl/README.md is not that of the code."""
import pathlib
import re
import sys

README = pathlib.Path("udapl/README.md")
CODE = pathlib.Path("udapl/dapl/cm/state.cpp")
OUTCOMES = {
    "": "ignored",
    "BROKEN": "conn_broken",
    "-> draining": "await_requests",
    "-> disconnecting": "await_drep",
    "after ESTABLISHED": "after_established",
}


def read_documented() -> dict[str, list[str]]:
    """The outcomes of each event, by the README."""
    table = README.read_text(encoding="utf-8").split("| event |")[1].split("\n\n")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]
    return {event: [OUTCOMES.get(cell, cell.lower()) for cell in cells] for event, *cells in rows}


def read_coded() -> dict[str, list[str]]:
    """The outcomes of each event, by the code."""
    rows = re.findall(r"/\* (\w+) \*/\s*\{([^}]*)\}", CODE.read_text(encoding="utf-8"))
    return {event: re.findall(r"\w+", cells) for event, cells in rows}


def main() -> int:
    documented, coded = read_documented(), read_coded()
    for event in sorted(documented.keys() | coded.keys()):
        if documented.get(event) != coded.get(event):
            print(f"{event}: {README} has {documented.get(event)}, {CODE} {coded.get(event)}")
    return int(documented != coded or not coded)


if __name__ == "__main__":
    sys.exit(main())
