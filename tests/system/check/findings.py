#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Prints the findings in logs of the checker, of a server and a client.

    findings.py [--killed] [--explained KIND] LOG...

--killed: one of both was ended by a signal, so that its log has no summary. --explained: findings of
that kind are right. Exit status: 0 no other finding, and each log that must have a summary has one. A
program that was tried again may have left logs without.
"""

import argparse
import json
import sys
from typing import Any, Dict, List, Tuple


def describe(finding: Dict[str, Any]) -> str:
    place = finding.get("place") or {}
    text = f"{finding['kind']}: {finding.get('title')}, in {place.get('function')}"
    return text + "".join(
        f"\n    {each.get('description')}: {' < '.join(each.get('stack') or [])}"
        for each in finding.get("events") or []
    )


def read_log(path: str) -> Tuple[List[Dict[str, Any]], bool]:
    """The findings, and whether the log ends with a summary."""
    with open(path, encoding="utf-8") as file:
        records = [json.loads(each) for each in file]
    findings = [each for each in records if "kind" in each]
    return findings, bool(records) and "summary" in records[-1]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--killed", action="store_true")
    parser.add_argument("--explained", metavar="KIND")
    parser.add_argument("paths", nargs="+", metavar="LOG")
    arguments = parser.parse_args()
    problems = []
    num_summaries = 0
    for path in arguments.paths:
        findings, has_summary = read_log(path)
        num_summaries += has_summary
        problems += [describe(each) for each in findings if each["kind"] != arguments.explained]
    if num_summaries < (1 if arguments.killed else 2):
        problems.append(f"{num_summaries} of {len(arguments.paths)} logs have a summary")
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
