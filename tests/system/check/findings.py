#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Prints the findings in logs of the checker that are not explained, and what is wrong with the logs.

    findings.py [--killed] LOG...

--killed: a process was ended by a signal, so that its log has no summary.
Exit status: 0 each log has a summary, and no finding is left.
"""

import json
import os
import sys
from typing import Any, Dict, List, NamedTuple, Tuple


class Explanation(NamedTuple):
    """Why a program of another project has a finding that is right."""

    program: str
    kind: str
    function: str
    reason: str


EXPLAINED: List[Explanation] = []


def describe(finding: Dict[str, Any]) -> str:
    place = finding.get("place") or {}
    text = f"{finding['kind']}: {finding.get('title')}, in {place.get('function')}"
    return text + "".join(
        f"\n    {each.get('description')}: {' < '.join(each.get('stack') or [])}"
        for each in finding.get("events") or []
    )


def is_explained(finding: Dict[str, Any]) -> bool:
    place = finding.get("place") or {}
    return any(
        finding["kind"] == each.kind and place.get("function") == each.function
        for each in EXPLAINED
    )


def read_log(path: str) -> Tuple[List[Dict[str, Any]], bool]:
    """The findings, and whether the log ends with a summary."""
    with open(path, encoding="utf-8") as file:
        records = [json.loads(each) for each in file]
    findings = [each for each in records if "kind" in each]
    return findings, bool(records) and "summary" in records[-1]


def main(arguments: List[str]) -> int:
    paths = [each for each in arguments if each != "--killed"]
    problems = []
    for path in paths:
        if not os.path.exists(path):
            problems.append(f"no log {path}")
            continue
        findings, has_summary = read_log(path)
        problems += [describe(each) for each in findings if not is_explained(each)]
        if not has_summary and "--killed" not in arguments:
            problems.append(f"no summary in {path}")
    print("\n".join(problems))
    return 1 if problems or not paths else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
