#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Runs programs of other projects under the checker.

    programs.py rxe|siw [--only REGEX] [--ours] [--late] [--json FILE]

Runs where a device of the driver exists (in `softrdma run --driver DRIVER`). Prints TAP, a case for each
row of the provider's battery: it runs without the checker and then with it and --protect, or --late, over the
stock provider or with --ours over coherdma's. A case fails if the program works only without the checker,
if the checker's log of a process does not end with its summary, and for a finding that explanations.csv
does not have.
"""

import argparse
import csv
import json
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, Dict, List, NamedTuple

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "provider/battery"))

from battery import device_facts, package_version  # noqa: E402
from rows import Row, all_rows  # noqa: E402
from run_pair import BUILD, Result, run_pair  # noqa: E402

TRIES = 3  # of a program that does not work with the checker: some fail at random without it


class Explanation(NamedTuple):
    """Why a finding is right, and what harm it does."""

    program: str  # a pattern of the row's name
    kind: str
    judgement: str
    explanation: str


def read_explanations() -> List[Explanation]:
    with open(HERE / "explanations.csv", encoding="utf-8", newline="") as file:
        return [Explanation(**row) for row in csv.DictReader(file)]


class Logs(NamedTuple):
    """Of all processes of a run."""

    findings: List[Dict[str, Any]]
    num_processes: int
    num_ended: int  # whose log ends with a summary: the others were killed, or have crashed


def read_logs(folder: Path) -> Logs:
    findings, num_processes, num_ended = [], 0, 0
    for path in folder.glob("check.*"):
        with open(path, encoding="utf-8") as file:
            records = [json.loads(line) for line in file]
        findings += [each for each in records if "kind" in each]
        num_processes += 1
        num_ended += bool(records) and "summary" in records[-1]
    return Logs(findings, num_processes, num_ended)


def run_checked(row: Row, plugin: str, is_late: bool, folder: Path) -> Result:
    observers = ["check", "late"] if is_late else ["check"]
    os.environ.update(
        COHERDMA_OBSERVERS=":".join(
            str(BUILD / f"provider/libcoherdma-{name}.so") for name in observers
        ),
        COHERDMA_CHECK_LOG=str(folder / "check.%p"),
        COHERDMA_CHECK_OPTIONS="late" if is_late else "protect",
    )
    return run_pair(row, plugin, folder, str(BUILD / "provider/libcoherdma-observers"))


def run_row(row: Row, plugin: str, is_late: bool) -> Dict[str, Any]:
    """Whether the program works without the checker and with it, and the findings."""
    entry: Dict[str, Any] = {}
    for _ in range(TRIES):
        with tempfile.TemporaryDirectory() as folder:
            entry["bare"] = run_pair(row, plugin, Path(folder)).reason
        with tempfile.TemporaryDirectory() as folder:
            result = run_checked(row, plugin, is_late, Path(folder))
            entry["checked"], entry["output"] = result.reason, result.output
            entry["logs"] = read_logs(Path(folder))
        if not entry["checked"] or entry["bare"]:
            break
    return entry


def describe(finding: Dict[str, Any]) -> str:
    function = (finding.get("place") or {}).get("function")
    return f"{finding['kind']}: {finding['title']}, in {function}"


def find_unexplained(
    name: str, findings: List[Dict[str, Any]], known: List[Explanation]
) -> List[str]:
    """Descriptions of the findings in this program, or suite, that have no explanation."""
    problems = []
    for finding in findings:
        if not any(
            each.kind == finding["kind"] and re.search(each.program, name) for each in known
        ):
            problems.append(describe(finding))
            problems += [
                f"  {event['description']}: {' < '.join(event['stack'])}"
                for event in finding["events"]
            ]
    return problems


def find_problems(row: Row, entry: Dict[str, Any], known: List[Explanation]) -> List[str]:
    problems = []
    if entry["checked"] and not entry["bare"]:
        problems.append(f"works only without the checker: {entry['checked']}")
        problems += entry["output"].splitlines()[-20:]
    logs = entry["logs"]
    num_killed = 1 if row.daemon else 0
    if not entry["checked"] and logs.num_processes - logs.num_ended > num_killed:
        problems.append(f"{logs.num_ended} of {logs.num_processes} logs have a summary")
    return problems + find_unexplained(row.name, logs.findings, known)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("driver", choices=("rxe", "siw"))
    parser.add_argument("--only", default="", metavar="REGEX")
    parser.add_argument("--ours", action="store_true")
    parser.add_argument("--late", action="store_true")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    facts, known = device_facts(options.driver), read_explanations()
    plugin = str(BUILD / "provider/libcoherdma") if options.ours else ""
    rows = [row for row in all_rows() if re.search(options.only, row.name)]
    table: List[Dict[str, Any]] = []
    num_failed = 0
    print(f"1..{len(rows)}", flush=True)
    for number, row in enumerate(rows, start=1):
        name = f"{number} - {options.driver}: {row.name}"
        if not shutil.which(row.name.replace(",", " ").split()[0]):
            print(f"ok {name} # SKIP {row.package} is not installed", flush=True)
            continue
        if options.driver in row.left_out:
            print(f"ok {name} # SKIP {row.left_out[options.driver]}", flush=True)
            continue
        entry = run_row(row.fill_in(facts), plugin, options.late)
        problems = find_problems(row, entry, known)
        num_failed += bool(problems)
        print(f"{'not ' if problems else ''}ok {name}")
        print(f"# bare: {entry['bare'] or 'works'}; checked: {entry['checked'] or 'works'}")
        for problem in problems:
            print(f"# {problem}")
        sys.stdout.flush()
        kinds = sorted({finding["kind"] for finding in entry["logs"].findings})
        works = {each: not entry[each] for each in ("bare", "checked")}
        table.append({"package": row.package, "name": row.name, **works, "kinds": kinds})
    if options.json:
        packages = {row.package: package_version(row.package) for row in rows}
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(
                {"driver": options.driver, "packages": packages, "rows": table}, file, indent=1
            )
    return 1 if num_failed or not table else 0


if __name__ == "__main__":
    sys.exit(main())
