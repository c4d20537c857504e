#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""A corpus of programs with one sync omitted or wrong: the emulation finds each, and is silent about
the same programs with all syncs.

    omissions.py rxe|siw [--gate] [NAME...]

Runs tests/system/coherdma/omissions over a soft device of the driver (in `softrdma run`), and prints
TAP and a table. A case is a scenario of the program, on a page that is fresh or has registered memory,
with a peer in the same process (a thread) or in another one. With all syncs there must be no finding
and no wrong byte, in any mode and with any seed. Without one, a finding in at least one mode must
name the region, lines of the range and the call, with the certainty that the scenario expects; each
other finding is a fault. Scenarios of local memory are run with COHERDMA_EMULATE_LOCAL_BUFFERS=program.

--gate: only scenarios that share a process, with a peer in it, in mode stale, and with all syncs in
evict:1. NAME: only these scenarios, each in a process of its own. WHOLE=1: seeds 1 to 20 with all
syncs instead of two; five without one, or for a scenario that needs a process of its own.
"""

import argparse
import collections
import itertools
import os
import subprocess
import sys
from typing import Any, DefaultDict, Dict, List, NamedTuple, Optional, Set, Tuple

import emulation

WHOLE = os.environ.get("WHOLE") == "1"
SEEDS = range(1, 21 if WHOLE else 3)  # with all syncs
FEW_SEEDS = range(1, 6 if WHOLE else 3)
# The places are a page and the peer's process.
PLACES = list(itertools.product(["fresh", "registered"], ["thread", "process"]))
GATE_PLACES = [("fresh", "thread"), ("registered", "thread")]

BEFORE_OR_AFTER = "sync before or after the Write"
LOCAL_BEFORE_OR_AFTER = "sync_for_device before, or sync_for_cpu after"
# What a finding may name as missing, by the call of the program. An atomic operation reads and writes.
MISSING = {
    "before_read": ["sync before the Read"],
    "before_write": ["sync before the Write", BEFORE_OR_AFTER, "sync before the Read"],
    "after_write": ["sync after the Write", BEFORE_OR_AFTER],
    "for_device": ["sync_for_device before the post", LOCAL_BEFORE_OR_AFTER],
    "for_cpu": ["sync_for_cpu after the completion", LOCAL_BEFORE_OR_AFTER],
    "separate_lines": [LOCAL_BEFORE_OR_AFTER, "separate lines for data that arrive"],
}


class Scenario(NamedTuple):
    name: str
    expected: Dict[str, str]  # by page
    group: List[str]  # options of the program
    run: str  # "", or a process of its own runs it: "alone", or "strict" with that option


class Group(NamedTuple):
    """Scenarios that one process runs, one after another."""

    options: List[str]
    only: Optional[str] = None  # a scenario
    strict: bool = False


def program_path() -> str:
    return os.environ["BUILD"] + "/tests/system/coherdma/omissions/omissions"


def list_scenarios(driver: str) -> List[Scenario]:
    scenarios = []
    groups: List[List[str]] = [[], ["--local"]]
    for group in groups:
        text = subprocess.run(
            [program_path(), "--list", driver, *group],
            stdout=subprocess.PIPE,
            check=True,
            universal_newlines=True,
        ).stdout
        for line in text.splitlines():
            name, fresh, registered, run = line.split("\t")
            expected = {"fresh": fresh, "registered": registered}
            scenarios.append(Scenario(name, expected, group, run))
    return scenarios


class Run(emulation.EmulatedRun):
    """One run of `omissions`."""

    def __init__(
        self, driver: str, mode: str, place: Tuple[str, str], group: Group, omit: bool
    ) -> None:
        page, peer = place
        options = list(group.options)
        options += ["--only", group.only] if group.only else []
        options += ["--registered"] if page == "registered" else []
        options += ["--two-processes"] if peer == "process" else []
        options += ["--omit"] if omit else []
        os.environ["COHERDMA_EMULATE_LOCAL_BUFFERS"] = (
            "program" if "--local" in options else "provider"
        )
        os.environ["COHERDMA_EMULATE_OPTIONS"] = "strict" if group.strict else ""
        super().__init__(
            [program_path(), *options, emulation.device_fact(driver, "ADDRESS")],
            mode,
            emulation.LINE,
            ["owner", "peer"] if peer == "process" else ["owner"],
        )
        if not self.problem and self.status not in (0, 1):
            self.problem = self.last_lines()
        self.memory: Dict[str, emulation.Range] = {}  # of scenarios
        # The calls that scenarios omit, with the bytes of which a sync is missing.
        self.lacking: DefaultDict[str, List[Tuple[str, emulation.Range]]] = collections.defaultdict(
            list
        )
        self.wrong: Set[str] = set()  # scenarios with wrong data
        self._read_output()

    def _read_output(self) -> None:
        """Read the lines that the program prints of its scenarios."""
        for line in self.output.splitlines():
            words = line.split(" ")
            if words[0] in ("region", "without") and len(words) in (4, 5):
                begin, length = int(words[-2], 16), int(words[-1])
                memory = emulation.Range(begin, begin + length)
                if words[0] == "region":
                    self.memory[words[1]] = memory
                else:
                    self.lacking[words[1]].append((words[2], memory))
            elif words[0] == "wrong":
                self.wrong.add(words[1].rstrip(":"))

    def findings_of(self, name: str) -> List[Dict[str, Any]]:
        """The owner's findings with lines in the memory of the scenario."""
        if name not in self.memory:
            return []
        return [
            each
            for each in self.findings["owner"]
            if self.memory[name].begin <= int(each["begin"], 16) < self.memory[name].end
        ]

    def has_wrong_data(self, name: str) -> bool:
        return name in self.wrong

    def mismatch_reason(self, name: str, finding: Dict[str, Any]) -> str:
        """Why a finding is not about the omitted call of the scenario; "" if it is."""
        begin, mr_begin = int(finding["begin"], 16), int(finding["region_begin"], 16)
        lines = emulation.Range(begin, begin + finding["length"])
        mr = emulation.Range(mr_begin, mr_begin + finding["region_length"])
        if not self.memory[name].contains(mr):
            return "another region"
        lacking = [
            memory for call, memory in self.lacking[name] if finding["missing"] in MISSING[call]
        ]
        if not lacking:
            return "another call"
        line = emulation.LINE
        for each in lacking:
            whole = emulation.Range(each.begin // line * line, -(-each.end // line) * line)
            if whole.contains(lines):
                return ""
        return "outside the range"


def certainty_of(finding: Dict[str, Any]) -> str:
    return finding.get("certainty", "certain")


class Case:
    """A scenario in a place, and what the runs have shown of it."""

    def __init__(self, scenario: Scenario, place: Tuple[str, str]) -> None:
        self.scenario, self.place = scenario, place
        self.expected = scenario.expected[place[0]]
        self.problems: List[str] = []
        self.seen: Dict[str, str] = {}  # certainty by mode, without the call
        self.notes: List[str] = []  # of requests that were not checked
        self.wrong_in: List[str] = []  # modes in which the data were wrong without the call

    def add_run(self, mode: str, omit: bool, run: Run) -> None:
        name = self.scenario.name
        if run.problem:
            self.problems.append(f"{mode}: {run.problem}")
            return
        self.notes += [
            f"{mode}: {line}"
            for line in run.output.splitlines()
            if line.startswith("coherdma: ") and "not check" in line
        ]
        findings = run.findings_of(name)
        if not omit or mode == "passthrough":
            syncs = "a call omitted" if omit else "all syncs"
            for each in findings:
                self.problems.append(f"{syncs}, {mode}: {emulation.describe_finding(each)}")
            if run.has_wrong_data(name):
                self.problems.append(f"{syncs}, {mode}: wrong data")
            return
        if run.has_wrong_data(name):
            self.wrong_in.append(mode)
        for each in findings:
            reason = run.mismatch_reason(name, each)
            if reason:
                self.problems.append(f"{mode}: {reason}: {emulation.describe_finding(each)}")
            elif self.seen.get(mode) != "certain":
                self.seen[mode] = certainty_of(each)

    def finish(self) -> None:
        certainties = set(self.seen.values())
        if self.expected == "unknown":
            right = not certainties
        elif self.expected in ("harmless", "none"):
            right = not certainties and not self.wrong_in
        elif self.expected == "possible":
            right = certainties == {"possible"}
        else:
            right = "certain" in certainties or (self.expected == "any" and certainties != set())
        if not right:
            self.problems[:0] = self.notes
            self.problems.insert(
                0,
                f"expected without the call: {self.expected}; found: {self.seen or 'none'};"
                f" wrong data: {self.wrong_in or 'none'}",
            )

    def name(self, driver: str) -> str:
        page, peer = self.place
        local = "local-" if self.scenario.group else ""
        return (
            f"{driver}: {local}{self.scenario.name}, {page} page, peer in a {peer}: {self.expected}"
        )


def modes_of(gate: bool, omit: bool, alone: bool) -> List[str]:
    """alone: for one scenario."""
    if gate:
        return ["stale"] if omit else ["stale", "evict:1"]
    evict = [f"evict:{seed}" for seed in (FEW_SEEDS if omit or alone else SEEDS)]
    return ["stale", "poison", *evict] + (["passthrough"] if WHOLE or not omit else [])


def unrelated_findings(run: Run, scenarios: List[Scenario]) -> List[str]:
    """Findings in memory of no scenario, of the connection or of the peer's process."""
    related = [id(each) for scenario in scenarios for each in run.findings_of(scenario.name)]
    return [
        f"the {side}: {emulation.describe_finding(each)}"
        for side, each in run.all_findings()
        if id(each) not in related
    ]


def run_group(
    driver: str, place: Tuple[str, str], group: Group, scenarios: List[Scenario], gate: bool
) -> Tuple[List[Case], List[str]]:
    """Runs the scenarios of a group in a place. Returns their cases, and findings about other memory."""
    cases = [Case(each, place) for each in scenarios]
    unrelated: List[str] = []
    for omit in (False, True):
        for mode in modes_of(gate, omit, group.only is not None):
            run = Run(driver, mode, place, group, omit)
            for each in cases:
                each.add_run(mode, omit, run)
            if not run.problem:
                unrelated += [f"{mode}: {each}" for each in unrelated_findings(run, scenarios)]
    for each in cases:
        each.finish()
    return cases, unrelated


def print_table(driver: str, places: List[Tuple[str, str]], cases: List[Case]) -> None:
    """One row for each scenario, with one column for each place: certain, possible or none, and
    "!" if that is not as expected or there was a finding with all syncs."""
    columns = " ".join(f"{page[:5]}/{peer[:6]}".ljust(14) for page, peer in places)
    print(f"# {driver}: {'scenario':40} {columns}")
    rows: Dict[str, List[str]] = {}
    for case in cases:
        local = "local-" if case.scenario.group else ""
        certainties = set(case.seen.values())
        seen = "certain" if "certain" in certainties else "possible" if certainties else "none"
        rows.setdefault(local + case.scenario.name, []).append(
            (seen + ("!" if case.problems else "")).ljust(14)
        )
    for name, row in rows.items():
        print(f"# {driver}: {name:40} {' '.join(row)}")
    num_failed = sum(1 for case in cases if case.problems)
    print(f"# {driver}: {len(cases)} cases, {num_failed} not as expected")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("driver", choices=["rxe", "siw"])
    parser.add_argument("--gate", action="store_true")
    parser.add_argument("names", nargs="*", metavar="NAME")
    arguments = parser.parse_args()
    driver, names = arguments.driver, arguments.names
    scenarios = [
        each
        for each in list_scenarios(driver)
        if (not names or each.name in names) and not (arguments.gate and each.run)
    ]
    places = GATE_PLACES if arguments.gate else PLACES
    groups: Dict[Tuple[str, str], Tuple[Group, List[Scenario]]] = {}
    for each in scenarios:
        only = each.name if names or each.run else None
        key = (" ".join(each.group), only or "")
        groups.setdefault(key, (Group(each.group, only, each.run == "strict"), []))[1].append(each)
    tap = emulation.Tap(len(places) * (len(scenarios) + len(groups)))
    all_cases: List[Case] = []
    for place, (group, members) in itertools.product(places, groups.values()):
        cases, unrelated = run_group(driver, place, group, members, arguments.gate)
        for case in cases:
            tap.report(case.name(driver), case.problems)
        subject = group.only or " ".join(group.options) or "remote"
        tap.report(f"{driver}: no other finding, {subject}, {' '.join(place)}", unrelated)
        all_cases += cases
    print_table(driver, places, all_cases)
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
