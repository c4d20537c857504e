#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""statements.py: prints TAP, a case for each row of tests/data/dat/statements.csv.

A row has a statement of one of Solaris' manual pages on LMRs, in our words, and the test and case that
prove it, or - and why there is none. A unit test is run, and the case must have passed. Of another
test the case must exist, and must not have failed when the test ran last.
"""

import csv
import functools
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List

ROOT = Path(__file__).parents[2]
BUILD = Path(os.environ["BUILD"])
PAGES = {
    "dat_lmr_create",
    "dat_lmr_free",
    "dat_lmr_query",
    "dat_lmr_sync_rdma_read",
    "dat_lmr_sync_rdma_write",
}


@functools.lru_cache(maxsize=None)
def registered_tests() -> Dict[str, List[str]]:
    """By name: the kind and its arguments, see tests/run_test.py."""
    command = ["ctest", "--test-dir", str(BUILD), "--show-only=json-v1"]
    document: Any = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    tests = {}
    for test in document["tests"]:
        words = test.get("command", [])
        if test["name"] in words:
            tests[test["name"]] = words[words.index(test["name"]) + 1 :]
    return tests


@functools.lru_cache(maxsize=None)
def passed_cases(program: str) -> List[str]:
    """Runs a unit test."""
    output = subprocess.run(
        [program],
        check=False,
        cwd=ROOT,
        env={**os.environ, "CMOCKA_MESSAGE_OUTPUT": "TAP"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="utf-8",
    ).stdout
    cases = re.findall(r"^ok \d+ - (.*)$", output, re.MULTILINE)
    return [case for case in cases if "# skip" not in case.lower()]


@functools.lru_cache(maxsize=None)
def source_of(kind: str, argument: str) -> str:
    """The text that names the cases: of a bats file, or of the folder of a program."""
    path = ROOT / argument
    if kind == "bats":
        return path.read_text(encoding="utf-8")
    return "".join(file.read_text(encoding="utf-8") for file in sorted(path.parent.rglob("*.cpp")))


def has_failed(test: str, case: str) -> bool:
    results = BUILD / "logs" / f"{test}.results"
    return results.exists() and f"FAIL\t{case}\t" in results.read_text(encoding="utf-8")


def problem_of(test: str, case: str) -> str:
    """Why the case does not prove the statement; "" if it does."""
    if test not in registered_tests():
        return f"there is no test {test}"
    kind, *arguments = registered_tests()[test]
    if kind == "cmocka":
        return "" if case in passed_cases(arguments[0]) else f"{test}: {case} has not passed"
    quoted_case = f'@test "{case}"' if kind == "bats" else f'"{case}"'
    if not any(quoted_case in source_of(kind, argument) for argument in arguments):
        return f"{test} has no case {case}"
    return f"{test}: {case} has failed" if has_failed(test, case) else ""


def main() -> None:
    with open(ROOT / "tests/data/dat/statements.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["page"] for row in rows} == PAGES
    assert len(rows) >= 94
    assert all(row["statement"] and row["case"] for row in rows)
    proven = [row for row in rows if row["test"] != "-"]
    print(f"1..{len(proven)}")
    failed = False
    for number, row in enumerate(proven, 1):
        problem = problem_of(row["test"], row["case"])
        failed |= problem != ""
        print(f"{'not ok' if problem else 'ok'} {number} - {row['page']}: {row['statement']}")
        if problem:
            print(f"# {problem}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
