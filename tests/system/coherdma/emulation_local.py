#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""A verbs program has to sync its own local buffers: the emulation finds each missing sync.

    emulation_local.py rxe|siw

Runs `synced` (see emulation.py) with COHERDMA_EMULATE_LOCAL_BUFFERS=program. With all syncs of local
memory it must pass in every mode without a finding. Without all syncs of one kind each mode has
findings, all of which name the kind's call and lines that were not synced; in mode stale also the
data are wrong. A program that makes no such sync at all, as it is right for the emulation's default,
is caught too.
"""

import os
import re
import sys
from typing import Any, Dict, List

import emulation

DEVICE, CPU = "sync_for_device before the post", "sync_for_cpu after the completion"
EITHER = "sync_for_device before, or sync_for_cpu after"
# The calls that a finding may name as missing.
MISSING = {
    "send": [DEVICE],
    "recv-before": [DEVICE, EITHER],
    "recv-after": [CPU, EITHER],
    "source": [DEVICE],
    "sink-before": [DEVICE, EITHER],
    "sink-after": [CPU, EITHER],
}
MODES = ["stale", "poison", "evict:1", "evict:2", "passthrough"]
FINDING_MODES = ["stale", "poison"]


def is_unexpected(run: emulation.Run, kind: str, side: str, finding: Dict[str, Any]) -> bool:
    """Whether a finding is not about the syncs of that kind, which this side has skipped."""
    begin = int(finding["begin"], 16)
    lines = emulation.Range(begin, begin + finding["length"])
    skipped = [
        emulation.Range(each.begin // emulation.LINE * emulation.LINE, each.end + emulation.LINE)
        for each in run.parse_ranges("without", kind, side)
    ]
    # A finding may have the lines of adjacent ranges.
    return finding["missing"] not in MISSING[kind] or not any(
        each.begin < lines.end and lines.begin < each.end for each in skipped
    )


def problems_without(driver: str, kind: str, mode: str) -> List[str]:
    """Runs `synced` without the local syncs of that kind. Returns what is not as the module's text says."""
    run = emulation.Run(driver, mode, emulation.LINE, "--local", "--without-local", kind)
    if run.problem:
        return [run.problem]
    problems = [
        f"the {side}: {emulation.describe_finding(each)}"
        for side, each in run.all_findings()
        if is_unexpected(run, kind, side, each)
    ]
    problems += [
        f"no finding on the {side}" for side, findings in run.findings.items() if not findings
    ]
    if mode == "stale" and not re.search("^wrong: ", run.output, re.M):
        problems.append("the data are right, so nothing was skipped")
    return problems


def problems_of_correct(driver: str, mode: str) -> List[str]:
    """Runs `synced` with all local syncs. Returns its findings and errors."""
    run = emulation.Run(driver, mode, emulation.LINE, "--local")
    problems = [f"{side}: {emulation.describe_finding(each)}" for side, each in run.all_findings()]
    if run.problem or run.status != 0:
        problems.append(run.problem or run.last_lines())
    return problems


def main(arguments: List[str]) -> int:
    if len(arguments) != 1 or arguments[0] not in ("rxe", "siw"):
        print(__doc__, file=sys.stderr)
        return 2
    driver = arguments[0]
    os.environ["COHERDMA_EMULATE_LOCAL_BUFFERS"] = "program"
    tap = emulation.Tap(len(MODES) + len(MISSING) * len(FINDING_MODES) + 1)
    for mode in MODES:
        tap.report(
            f"{driver}: no finding in a program that syncs its buffers, {mode}",
            problems_of_correct(driver, mode),
        )
    for kind in MISSING:
        for mode in FINDING_MODES:
            tap.report(
                f"{driver}: findings name each missing sync, {kind}, {mode}",
                problems_without(driver, kind, mode),
            )
    run = emulation.Run(driver, "stale", emulation.LINE)
    tap.report(
        f"{driver}: a program that leaves its buffers to the provider fails",
        ["it passes"] if run.status == 0 else [],
    )
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
