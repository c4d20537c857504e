#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Does a played non-coherent device find every sync that is missing, and nothing else?

    emulation.py rxe|siw

Runs tests/system/emulation's `synced` where a soft device of the driver exists (in `softrdma run`),
both sides over that device, and prints TAP and a table. The program as it is has to pass in every
mode, with each seed and size of line, without a finding. Without one of its syncs (each in turn) it
has to fail or be reported in one mode at least, and there has to be a finding that names the region,
lines of the range, the call, in the process that should have made it. A finding about anything else
is a false alarm.

WHOLE=1: ten seeds instead of two, all sizes of lines, and each sync in all modes. There is a seed
in evict only: the others are tried again, for what is due to chance in the program itself.
"""

import collections
import json
import os
import re
import subprocess
import sys
import tempfile
from typing import Any, Dict, Iterator, List, NamedTuple, Tuple

WHOLE = os.environ.get("WHOLE") == "1"
LINE = 64
TIMEOUT = 60.0
MODES = ["stale", "poison", "through", "evict"]
SEEDS = range(1, 11 if WHOLE else 3)
AGAIN = range(1, 4 if WHOLE else 3)
LINES = [32, 64, 128, 256] if WHOLE else [32, 256]
FINDING_MODES = ["stale", "poison", "evict:1", "evict:2", "evict:3"]

# What a finding may say is missing, the first of them at least once.
MISSING = {
    "read": ["sync_rdma_read before the Read"],
    "write-before": [
        "sync_rdma_write before the Write",
        "sync_rdma_write before or after the Write",
    ],
    "write-after": ["sync_rdma_write after the Write", "sync_rdma_write before or after the Write"],
}


class Site(NamedTuple):
    number: int
    phase: str
    side: str
    kind: str
    region: str

    def __str__(self) -> str:
        return f"{self.number}, {self.kind} in {self.phase} by the {self.side}"


class Range(NamedTuple):
    begin: int
    end: int

    def holds(self, other: "Range") -> bool:
        return self.begin <= other.begin and other.end <= self.end


class Run:
    """One run of the program, both sides of it, and what the emulation told of each."""

    def __init__(self, driver: str, mode: str, line: int, *options: str) -> None:
        device, address = (
            os.environ[f"SOFTRDMA_{driver.upper()}_{what}"] for what in ("DEVICE", "ADDRESS")
        )
        with tempfile.TemporaryDirectory() as folder:
            env = dict(
                os.environ,
                RDMAV_DRIVERS=os.environ["BUILD"] + "/release/provider/libcoherdma",
                COHERDMA_EMULATE=mode,
                COHERDMA_EMULATE_LINE=str(line),
                COHERDMA_EMULATE_LOG=folder + "/%p.json",
                COHERDMA_EMULATE_LIMIT="1000",
            )
            try:
                done = subprocess.run(
                    [program(), *options, device, address],
                    env=env,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    timeout=TIMEOUT,
                    check=False,
                )
                self.status, output = done.returncode, done.stdout
            except subprocess.TimeoutExpired as late:
                self.status, output = 124, late.stdout or b""
            self.output = output.decode(errors="replace")
            self.findings: Dict[str, List[Dict[str, Any]]] = {}
            self.trouble = self._read(folder, line)

    def _read(self, folder: str, line: int) -> str:
        """Why nothing can be said of this run; "" if something can."""
        for side in ("server", "client"):
            process = re.search(rf"^{side} (\d+) exit [01]$", self.output, re.M)
            if not process:
                return f"the {side} did not come to its end: {self.last()}"
            try:
                with open(f"{folder}/{process[1]}.json", encoding="utf-8") as file:
                    told = [json.loads(each) for each in file]
            except OSError as error:
                return f"no log of the {side}: {error}"
            if not told or told[-1]["coherdma"] != "summary":
                return f"the {side}'s log has no summary"
            self.findings[side] = [each for each in told if each["coherdma"] == "finding"]
            if len(self.findings[side]) != told[-1]["findings"]:
                return f"the {side}'s log has not all findings"
        if len(re.findall(rf"^verdict emulated {line}$", self.output, re.M)) != 2:
            return "the device was not played on both sides"
        return ""

    def last(self) -> str:
        said = [
            each
            for each in self.output.splitlines()
            if re.match(r"error|wrong|server|client|coherdma: ", each)
        ]
        return " | ".join(said[-4:]) or f"status {self.status}, nothing was said"

    def all_findings(self) -> Iterator[Tuple[str, Dict[str, Any]]]:
        for side, told in self.findings.items():
            for each in told:
                yield side, each

    def ranges(self, word: str, name: str, side: str) -> List[Range]:
        """What the program printed of a region, or of what it left out."""
        lines = re.findall(rf"^{word} {name} (0x[0-9a-f]+) (\d+) {side}$", self.output, re.M)
        return [Range(int(begin, 16), int(begin, 16) + int(length)) for begin, length in lines]


def program() -> str:
    return os.environ["BUILD"] + "/release/tests/system/emulation/synced"


def words_of(finding: Dict[str, Any]) -> str:
    return (
        f"{finding['kind']} of {finding['length']} bytes at {finding['begin']}"
        f" in {finding['region_begin']}, missing: {finding['missing']}"
    )


def why_off(run: Run, site: Site, side: str, finding: Dict[str, Any]) -> str:
    """Why a finding is not about the sync that was left out; "": it is."""
    begin = int(finding["begin"], 16)
    region = int(finding["region_begin"], 16)
    if side != site.side:
        return f"it is of the {side}"
    if Range(region, region + finding["region_length"]) not in run.ranges(
        "region", site.region + r"(?:\.\d)?", side
    ):
        return "another region"
    rounded = [
        Range(each.begin // LINE * LINE, -(-each.end // LINE) * LINE)
        for each in run.ranges("without", str(site.number), side)
    ]
    if not any(each.holds(Range(begin, begin + finding["length"])) for each in rounded):
        return "beyond the range"
    if finding["missing"] not in MISSING[site.kind]:
        return "another call"
    return ""


class Verdict(NamedTuple):
    seen: bool  # the program failed, or there was a finding
    named: bool  # one finding says exactly what is missing
    false: List[str]  # findings of anything else


def judge(run: Run, site: Site) -> Verdict:
    named, false = False, []
    for side, each in run.all_findings():
        off = why_off(run, site, side, each)
        if off:
            false.append(f"{off}: {words_of(each)}")
        elif each["missing"] == MISSING[site.kind][0]:
            named = True
    return Verdict(run.status == 1 or any(run.findings.values()), named, false)


class Tap:
    def __init__(self, planned: int) -> None:
        self.count = self.failed = 0
        print(f"1..{planned}", flush=True)

    def tell(self, name: str, problems: List[str]) -> None:
        self.count += 1
        self.failed += bool(problems)
        print(f"{'not ' if problems else ''}ok {self.count} - {name}")
        for each in problems[:8]:
            print(f"# {each}")
        sys.stdout.flush()


def try_correct(tap: Tap, driver: str, mode: str, line: int) -> Tuple[int, int]:
    """How many runs, and in how many of them there was a finding or wrong data."""
    problems, alarms = [], 0
    tries = SEEDS if mode == "evict" else AGAIN
    for seed in tries:
        run = Run(driver, f"evict:{seed}" if mode == "evict" else mode, line)
        told = [f"the {side}: {words_of(each)}" for side, each in run.all_findings()]
        if run.trouble or run.status != 0 or told:
            alarms += 1
            problems.append(f"{seed}: {run.trouble or run.last()}")
            problems += told[:3]
    seeds = f"seeds {SEEDS[0]} to {SEEDS[-1]}" if mode == "evict" else f"{len(tries)} times"
    tap.tell(f"{driver}: a program that syncs, {mode}, lines of {line}, {seeds}", problems)
    return len(tries), alarms


class Found(NamedTuple):
    by: List[str]  # modes
    named_by: List[str]
    false: int


def try_without(tap: Tap, driver: str, site: Site) -> Found:
    by, named_by, problems, false = [], [], [], 0
    options = ("--only", site.phase, "--without", str(site.number))
    for mode in FINDING_MODES:
        run = Run(driver, mode, LINE, *options)
        if run.trouble:
            problems.append(f"{mode}: {run.trouble}")
            continue
        verdict = judge(run, site)
        by += [mode] if verdict.seen else []
        named_by += [mode] if verdict.seen and verdict.named else []
        false += len(verdict.false)
        problems += [f"{mode}: {each}" for each in verdict.false]
        if named_by and not WHOLE:
            break
    if not named_by:
        problems.insert(0, f"seen in {by or 'no mode'}, but no finding says what was missing")
    if WHOLE:  # to a coherent device nothing is missing
        run = Run(driver, "through", LINE, *options)
        if run.trouble or run.status != 0 or any(run.findings.values()):
            problems.append(f"through: {run.trouble or run.last()}")
    tap.tell(f"{driver}: without sync {site}", problems)
    return Found(by, named_by, false)


def listed(driver: str) -> List[Site]:
    text = subprocess.run(
        [program(), "--list", driver], stdout=subprocess.PIPE, check=True, universal_newlines=True
    ).stdout
    rows = [each.split("\t") for each in text.splitlines()]
    return [Site(int(number), *rest) for number, *rest in rows]  # type: ignore[call-arg]


def table(driver: str, correct: List[Tuple[int, int]], found: Dict[Site, Found]) -> None:
    runs, alarms = (sum(each) for each in zip(*correct))
    named = sum(1 for each in found.values() if each.named_by)
    print(f"# {driver}")
    print(f"#   correct program      {runs:4} runs, {alarms} with a finding or wrong data")
    print(f"#   variants             {len(found):4}")
    print(f"#   found and named      {named:4}, recall {100 * named / len(found):.1f} %")
    print(f"#   findings elsewhere   {sum(each.false for each in found.values()):4}")
    for mode in FINDING_MODES:
        seen = sum(1 for each in found.values() if mode in each.by)
        right = sum(1 for each in found.values() if mode in each.named_by)
        if seen:
            print(f"#   {mode:8}             {seen:4} seen, {right} named")
    kinds: Dict[str, List[int]] = collections.defaultdict(lambda: [0, 0])
    for site, each in found.items():
        kinds[site.kind][0] += bool(each.named_by)
        kinds[site.kind][1] += 1
    for kind, (got, of) in sorted(kinds.items()):
        print(f"#   {kind:20} {got:4} of {of}")


def main(arguments: List[str]) -> int:
    if len(arguments) != 1 or arguments[0] not in ("rxe", "siw"):
        print(__doc__, file=sys.stderr)
        return 2
    driver = arguments[0]
    variants = listed(driver)
    tap = Tap(len(MODES) * len(LINES) + len(variants))
    correct = [try_correct(tap, driver, mode, line) for line in LINES for mode in MODES]
    found = {site: try_without(tap, driver, site) for site in variants}
    table(driver, correct, found)
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
