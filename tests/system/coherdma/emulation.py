#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The emulation of a non-coherent device finds every missing sync, and reports nothing else.

    emulation.py rxe|siw

Runs tests/system/coherdma/emulation's `synced` over a soft device of the driver (in `softrdma run`),
and prints TAP and a table. The unchanged program must pass in every mode, with each seed and line
size, without a finding. If one sync call of each phase is skipped (each in turn; phases have their
own memory), each phase must fail or be reported in at least one mode, and a finding must name the
region, lines of the range and the call, in the process that should have made it. A finding about
anything else is a false positive.

WHOLE=1: three rounds instead of two, ten seeds instead of two, all line sizes, and each sync call
alone, in all modes. Only evict has a seed; the other modes are repeated as often, since the timing
of the program differs between runs.
"""

import collections
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
from typing import Any, Dict, Iterator, List, NamedTuple, Tuple

WHOLE = os.environ.get("WHOLE") == "1"
LINE = 64
TIMEOUT = 300.0  # ends a hang
MODES = ["stale", "poison", "passthrough", "evict"]
SEEDS = range(1, 11 if WHOLE else 3)
REPEATS = range(1, 4 if WHOLE else 3)
ROUNDS = 3 if WHOLE else 2
LINES = [32, 64, 128, 256] if WHOLE else [32, 256]
FINDING_MODES = ["stale", "poison", "evict:1", "evict:2", "evict:3"]

# What a finding may name as missing; the first one must occur at least once.
MISSING = {
    "read": ["sync before the Read"],
    "write-before": [
        "sync before the Write",
        "sync before or after the Write",
    ],
    "write-after": ["sync after the Write", "sync before or after the Write"],
}


class Site(NamedTuple):
    """A place in `synced` that makes a sync call, as `synced --list` prints it."""

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

    def contains(self, other: "Range") -> bool:
        return self.begin <= other.begin and other.end <= self.end


def emulated_drivers() -> str:
    """The drivers that libibverbs loads: what attaches the emulation, and our provider but with PROVIDER=stock."""
    plugin = os.environ["BUILD"] + "/provider/libcoherdma"
    drivers = [plugin + "-observers"]
    if os.environ.get("PROVIDER") != "stock":
        drivers.insert(0, plugin)
    return ":".join(drivers)


def provider_options() -> List[str]:
    """The stock rxe confuses completions of extended CQs, and the stock siw has neither these nor ibv_wr_*."""
    return ["--no-extended"] if os.environ.get("PROVIDER") == "stock" else []


def device_fact(driver: str, fact: str) -> str:
    """Of the driver's device, such as its ADDRESS."""
    return os.environ[f"SOFTRDMA_{driver.upper()}_{fact}"]


class EmulatedRun:
    """One run of a program, and the findings of each of its processes.

    sides: the names of the processes. The program prints "SIDE PID", perhaps with how it ended, and
    for each of two connected QPs "coherency non-coherent emulated LINE".
    """

    def __init__(self, command: List[str], mode: str, line: int, sides: List[str]) -> None:
        self.sides = sides
        with tempfile.TemporaryDirectory() as folder:
            env = dict(
                os.environ,
                RDMAV_DRIVERS=emulated_drivers(),
                COHERDMA_EMULATE=mode,
                COHERDMA_EMULATE_LINE=str(line),
                COHERDMA_EMULATE_LOG=folder + "/%p.json",
                COHERDMA_EMULATE_LIMIT="1000",
            )
            try:
                process = subprocess.run(
                    command,
                    env=env,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    timeout=TIMEOUT,
                    check=False,
                )
                self.status, output = process.returncode, process.stdout
            except subprocess.TimeoutExpired as error:
                self.status, output = 124, error.stdout or b""
            self.output = output.decode(errors="replace")
            self.findings: Dict[str, List[Dict[str, Any]]] = {}
            self.problem = self._read_findings(folder, line)

    def _read_findings(self, folder: str, line: int) -> str:
        """Read the log of each side. Returns why the run cannot be evaluated; "" if it can.

        line: the emulated line size that the program must report.
        """
        for side in self.sides:
            process = re.search(rf"^{side} (\d+)(?: exit [01])?$", self.output, re.M)
            if not process:
                return f"the {side} did not end: {self.last_lines()}"
            try:
                with open(f"{folder}/{process[1]}.json", encoding="utf-8") as file:
                    records = [json.loads(each) for each in file]
            except OSError as error:
                return f"no log of the {side}: {error}"
            if not records or records[-1]["coherdma"] != "summary":
                return f"the {side}'s log has no summary"
            self.findings[side] = [each for each in records if each["coherdma"] == "finding"]
            if len(self.findings[side]) != records[-1]["findings"]:
                return f"the {side}'s log has not all findings"
        devices = re.findall("^coherency .*$", self.output, re.M)
        if len(devices) != 2 or set(devices) != {f"coherency non-coherent emulated {line}"}:
            return f"the device was not emulated on both sides: {devices}"
        return ""

    def last_lines(self) -> str:
        """The end of the output, for a failed case."""
        lines = [
            each
            for each in self.output.splitlines()
            if re.match(r"error|wrong|server|client|coherdma: ", each)
        ]
        return " | ".join(lines[-4:]) or f"status {self.status}, no output"

    def all_findings(self) -> Iterator[Tuple[str, Dict[str, Any]]]:
        """Each finding, with the side that reported it."""
        for side, records in self.findings.items():
            for each in records:
                yield side, each


class Run(EmulatedRun):
    """One run of `synced`."""

    def __init__(self, driver: str, mode: str, line: int, *options: str) -> None:
        rounds = ["--rounds", str(ROUNDS)]
        place = [device_fact(driver, "DEVICE"), device_fact(driver, "ADDRESS")]
        super().__init__(
            [program_path(), *rounds, *provider_options(), *options, *place],
            mode,
            line,
            ["server", "client"],
        )

    def parse_ranges(self, word: str, name: str, side: str) -> List[Range]:
        """The ranges that `synced` printed on this side: of the region with that name (word "region"), or
        of the skipped sync call with that number ("without")."""
        lines = re.findall(rf"^{word} {name} (0x[0-9a-f]+) (\d+) {side}$", self.output, re.M)
        return [Range(int(begin, 16), int(begin, 16) + int(length)) for begin, length in lines]


def program_path() -> str:
    return os.environ["BUILD"] + "/tests/system/coherdma/emulation/synced"


def describe_finding(finding: Dict[str, Any]) -> str:
    return (
        f"{finding['kind']} of {finding['length']} bytes at {finding['begin']}"
        f" in {finding['region_begin']}, missing: {finding['missing']}"
    )


def is_in_region(run: Run, site: Site, side: str, finding: Dict[str, Any]) -> bool:
    """Whether a finding of this side is about the region of the site's phase; threads have one each."""
    region = int(finding["region_begin"], 16)
    return Range(region, region + finding["region_length"]) in run.parse_ranges(
        "region", site.region + r"(?:\.\d)?", side
    )


def mismatch_reason(run: Run, site: Site, side: str, finding: Dict[str, Any]) -> str:
    """Why a finding is not about the skipped sync call; "" if it is."""
    begin = int(finding["begin"], 16)
    if side != site.side:
        return f"on the {side}"
    if not is_in_region(run, site, side, finding):
        return "another region"
    skipped_lines = [
        Range(each.begin // LINE * LINE, -(-each.end // LINE) * LINE)
        for each in run.parse_ranges("without", str(site.number), side)
    ]
    if not any(each.contains(Range(begin, begin + finding["length"])) for each in skipped_lines):
        return "outside the range"
    if finding["missing"] not in MISSING[site.kind]:
        return "another call"
    return ""


class Result:
    """The result for one skipped sync call."""

    def __init__(self) -> None:
        self.seen_in: List[str] = []  # modes in which the data were wrong, or there was a finding
        self.named_in: List[str] = []  # modes in which a finding names the missing call
        self.num_unrelated = 0  # findings about anything else
        self.problems: List[str] = []

    def add_run(self, mode: str, run: Run, site: Site, findings: List[Tuple[str, Any]]) -> None:
        """Add a run in which the site's call was skipped; findings: its findings about this site."""
        named = False
        for side, each in findings:
            if reason := mismatch_reason(run, site, side, each):
                self.num_unrelated += 1
                self.problems.append(f"{mode}: {reason}: {describe_finding(each)}")
            elif each["missing"] == MISSING[site.kind][0]:
                named = True
        if findings or re.search(rf"^wrong: {site.region}[.,]", run.output, re.M):
            self.seen_in.append(mode)
            self.named_in += [mode] if named else []


class Tap:
    def __init__(self, planned: int) -> None:
        self.count = self.failed = 0
        print(f"1..{planned}", flush=True)

    def report(self, name: str, problems: List[str]) -> None:
        self.count += 1
        self.failed += bool(problems)
        print(f"{'not ' if problems else ''}ok {self.count} - {name}")
        for each in problems[:8]:
            print(f"# {each}")
        sys.stdout.flush()


def test_correct(tap: Tap, driver: str, mode: str, line: int) -> Tuple[int, int]:
    """Runs `synced` with all syncs and reports a case. Returns the number of runs, and of those with a
    finding or wrong data."""
    problems, num_failed = [], 0
    tries = SEEDS if mode == "evict" else REPEATS
    for seed in tries:
        run = Run(driver, f"evict:{seed}" if mode == "evict" else mode, line)
        records = [f"the {side}: {describe_finding(each)}" for side, each in run.all_findings()]
        if run.problem or run.status != 0 or records:
            num_failed += 1
            problems.append(f"{seed}: {run.problem or run.last_lines()}")
            problems += records[:3]
    seeds = f"seeds {SEEDS[0]} to {SEEDS[-1]}" if mode == "evict" else f"{len(tries)} times"
    tap.report(
        f"{driver}: no finding in a program that syncs, {mode}, lines of {line}, {seeds}", problems
    )
    return len(tries), num_failed


def run_without(driver: str, mode: str, sites: List[Site]) -> Run:
    """Runs `synced` without the sites' calls; for one site only its phase."""
    options = ["--only", sites[0].phase] if len(sites) == 1 else []
    return Run(
        driver, mode, LINE, *options, "--without", ",".join(str(each.number) for each in sites)
    )


def test_without(driver: str, sites: List[Site]) -> Dict[Site, Result]:
    """Skips the sync calls of the sites, which are in different phases, in the same runs: one run for each
    mode, until a finding names each of them."""
    results = {site: Result() for site in sites}
    for mode in FINDING_MODES:
        remaining = [site for site in sites if WHOLE or not results[site].named_in]
        if not remaining:
            break
        run = run_without(driver, mode, remaining)
        findings: Dict[Site, List[Tuple[str, Any]]] = {site: [] for site in remaining}
        for side, each in run.all_findings():
            matching = [site for site in remaining if is_in_region(run, site, side, each)]
            # One in no site's region counts as unrelated, of any site.
            findings[(matching or remaining)[0]].append((side, each))
        for site in remaining:
            if run.problem:
                results[site].problems.append(f"{mode}: {run.problem}")
            else:
                results[site].add_run(mode, run, site, findings[site])
    for result in results.values():
        if not result.named_in:
            result.problems.insert(
                0, f"seen in {result.seen_in or 'no mode'}, but no finding names the missing call"
            )
    if WHOLE:  # a coherent device needs no sync
        run = run_without(driver, "passthrough", sites)
        if run.problem or run.status != 0 or any(run.findings.values()):
            results[sites[0]].problems.append(f"passthrough: {run.problem or run.last_lines()}")
    return results


def group_sites(sites: List[Site]) -> List[List[Site]]:
    """Sites that are skipped together: one of each phase, or one alone."""
    if WHOLE:
        return [[site] for site in sites]
    sites_by_phase = [list(each) for _, each in itertools.groupby(sites, lambda site: site.phase)]
    return [[site for site in group if site] for group in itertools.zip_longest(*sites_by_phase)]


def list_sites(driver: str) -> List[Site]:
    """The sync calls of `synced` on this driver, in the order of their numbers."""
    text = subprocess.run(
        [program_path(), "--list", driver],
        stdout=subprocess.PIPE,
        check=True,
        universal_newlines=True,
    ).stdout
    rows = [each.split("\t") for each in text.splitlines()]
    return [Site(int(number), *rest) for number, *rest in rows]


def print_table(driver: str, correct: List[Tuple[int, int]], results: Dict[Site, Result]) -> None:
    runs, num_failed = (sum(each) for each in zip(*correct))
    named = sum(1 for each in results.values() if each.named_in)
    print(f"# {driver}")
    print(f"#   correct program      {runs:4} runs, {num_failed} with a finding or wrong data")
    print(f"#   sync calls           {len(results):4}")
    print(f"#   found and named      {named:4}, recall {100 * named / len(results):.1f} %")
    print(f"#   unrelated findings   {sum(each.num_unrelated for each in results.values()):4}")
    for mode in FINDING_MODES:
        seen = sum(1 for each in results.values() if mode in each.seen_in)
        right = sum(1 for each in results.values() if mode in each.named_in)
        if seen:
            print(f"#   {mode:8}             {seen:4} seen, {right} named")
    kinds: Dict[str, List[int]] = collections.defaultdict(lambda: [0, 0])
    for site, each in results.items():
        kinds[site.kind][0] += bool(each.named_in)
        kinds[site.kind][1] += 1
    for kind, (named, total) in sorted(kinds.items()):
        print(f"#   {kind:20} {named:4} of {total}")


def main(arguments: List[str]) -> int:
    if len(arguments) != 1 or arguments[0] not in ("rxe", "siw"):
        print(__doc__, file=sys.stderr)
        return 2
    driver = arguments[0]
    sites = list_sites(driver)
    tap = Tap(len(MODES) * len(LINES) + len(sites))
    correct = [test_correct(tap, driver, mode, line) for line in LINES for mode in MODES]
    results: Dict[Site, Result] = {}
    for group in group_sites(sites):
        results.update(test_without(driver, group))
    for site in sites:
        tap.report(f"{driver}: a finding names missing sync {site}", results[site].problems)
    print_table(driver, correct, results)
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
