#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The checker finds each wrong program of the corpus, and is silent about the corrected ones.

    check.py rxe|siw [--bare] [--late] [--sanitizer asan|tsan|msan] [--only REGEX] [--seed N]

Runs tests/system/check/corpus over a soft device of the driver (in `softrdma run`), and prints TAP and
a table. Each case runs twice, each time in a process: wrong and corrected. A finding must be of the
case's kind, on a line with the comment "wrong: KIND" of its function, or in what that calls, and its
events must be in their order; the corrected program must have
none. Cases of kind none are correct programs. The program must end as without the checker, and the log must end with the summary.

--sanitizer: the corpus as that sanitizer's compiler builds it. It must not report in a corrected program,
and must report the cases that have its name as their kind.
--late: as `coherdma check --late`. Cases that need it have the option "late", and run so anyway.
--bare: without the checker: each program must do what the table of the corpus says of it. --seed: the
order of the cases. COHERDMA_CHECK_OPTIONS is added to what a case needs. PROVIDER=stock: over the
provider of rdma-core.
"""

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
from typing import Any, Dict, List, NamedTuple, Set, Tuple

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus")
TIMEOUT = 120.0  # ends a hang
ENDLESS = 10.0  # after which a program is taken for endless
OPTIONS = {"leaked": "leaks", "remote-key": "distinctkeys"}  # that the kinds need
# Kinds that tell which request the device has.
OWNED = {
    "source-changed",
    "early-access",
    "overlap",
    "memory-freed",
    "dereg-while-outstanding",
    "destroy-while-outstanding",
}
SANITIZERS = {"asan": "AddressSanitizer", "tsan": "ThreadSanitizer", "msan": "MemorySanitizer"}
EXPLANATION = "coherdma check: this memory is of"  # in a report of the address sanitizer
# Wrong programs that look at memory until data are there: they come with the completion only.
ENDLESS_IF_LATE = {"message_found_by_memory"}
CRASHES = (-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS, -signal.SIGILL)


class Options(NamedTuple):
    """How the cases are run."""

    driver: str
    bare: bool
    sanitizer: str  # or ""
    late: bool

    def program(self) -> str:
        suffix = "_" + self.sanitizer if self.sanitizer else ""
        return build_path("tests/system/check/corpus/corpus" + suffix)


class Case(NamedTuple):
    """A line of `corpus --list`."""

    name: str
    kind: str
    needs: List[str]
    crash: str  # when it may: "", "bare" (only without the checker) or "checked" (with it, too)
    also: List[str]
    options: str  # of the checker


def build_path(name: str) -> str:
    return os.path.join(os.environ["BUILD"], name)


def is_stock() -> bool:
    return os.environ.get("PROVIDER") == "stock"


def list_cases(options: Options) -> List[Case]:
    """The cases that run on the driver's device."""
    driver = options.driver
    lines = subprocess.run(
        [build_path("tests/system/check/corpus/corpus"), "--list"],
        stdout=subprocess.PIPE,
        check=True,
        universal_newlines=True,
    ).stdout.splitlines()
    cases = []
    for line in lines:
        name, kind, needs, crash, also, checks = line.split("\t")
        case = Case(name, kind, needs.split(","), crash, also.split(",") if also else [], checks)
        missing = {"rxe"} if driver == "siw" else set()
        if is_stock():
            missing.update({"coherdma"}, {"extended"} if driver == "siw" else set())
        if options.sanitizer == "asan":
            missing.add("cancels")
        missing.add("maps" if options.sanitizer == "msan" else "msan")
        other_sanitizer = case.kind in SANITIZERS and case.kind != options.sanitizer
        if not missing.intersection(case.needs) and not other_sanitizer:
            cases.append(case)
    return cases


def marked_lines(case: Case) -> Set[Tuple[str, int]]:
    """The lines in the case's function, in which a call is wrong: name of the file and number."""
    for name in sorted(os.listdir(FOLDER)):
        if not name.endswith(".cpp"):
            continue
        with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
            lines = file.read().splitlines()
        for begin, text in enumerate(lines):
            if not text.startswith(f"void {case.name}("):
                continue
            end = lines.index("}", begin)
            marker = re.compile(rf"// wrong: {re.escape(case.kind)}\b")
            return {(name, i + 1) for i in range(begin, end) if marker.search(lines[i])}
    return set()


class Run:
    """One run of a case."""

    def __init__(self, case: Case, variant: str, options: Options) -> None:
        driver = options.driver
        facts = [os.environ[f"SOFTRDMA_{driver.upper()}_{each}"] for each in ("DEVICE", "ADDRESS")]
        command = [options.program(), case.name, variant, driver]
        is_endless = options.late and variant == "wrong" and case.name in ENDLESS_IF_LATE
        self.records: List[Dict[str, Any]] = []
        self.is_endless = False
        with tempfile.TemporaryDirectory() as folder:
            try:
                process = subprocess.run(
                    [*command, *facts],
                    env=self._environment(case, folder, options),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    timeout=ENDLESS if is_endless else TIMEOUT,
                    check=False,
                )
                self.status, output = process.returncode, process.stdout
            except subprocess.TimeoutExpired as error:
                self.status, output = 0 if is_endless else 124, error.stdout or b""
                self.is_endless = is_endless
            self.output = output.decode(errors="replace")
            for name in os.listdir(folder):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    self.records += [json.loads(each) for each in file]
        self.findings = [each for each in self.records if "kind" in each]

    @staticmethod
    def _environment(case: Case, folder: str, options: Options) -> Dict[str, str]:
        env = dict(os.environ)
        if options.sanitizer == "msan":  # as `coherdma check` does
            env["LD_PRELOAD"] = build_path("provider/libcoherdma-msan.so")
            env["LD_BIND_NOW"] = "1"
        plugin = build_path("provider/libcoherdma")
        drivers = [] if is_stock() else [plugin]
        if not options.bare:
            drivers.append(plugin + "-observers")
            env["COHERDMA_OBSERVERS"] = plugin + "-check.so"
            checks = case.options.split(",")
            if options.late or "late" in checks:
                env["COHERDMA_OBSERVERS"] += f":{plugin}-late.so"
            compares_targets = options.late and bool({"ownership", "protect"}.intersection(checks))
            env["COHERDMA_CHECK_LOG"] = folder + "/%p.json"
            env["COHERDMA_CHECK_OPTIONS"] = ",".join(
                filter(
                    None,
                    [
                        OPTIONS.get(case.kind),
                        case.options,
                        "late" if compares_targets else None,
                        env.get("COHERDMA_CHECK_OPTIONS"),
                    ],
                )
            )
        if drivers:
            env["RDMAV_DRIVERS"] = ":".join(drivers)
        return env

    def has_summary(self) -> bool:
        return bool(self.records) and "summary" in self.records[-1]

    def sanitizer_report(self) -> str:
        """What a sanitizer has reported, or ""."""
        match = re.search(
            r"(ERROR|WARNING): (Address|Thread|Memory|Leak)Sanitizer|LeakSanitizer has encountered",
            self.output,
        )
        return self.output[match.start() :] if match else ""

    def last_lines(self) -> str:
        return f"status {self.status}: " + " / ".join(self.output.strip().splitlines()[-3:])


def places_of(finding: Dict[str, Any]) -> Set[Tuple[str, int]]:
    """The lines of the wrong call and of what called it: name of the file and number."""
    place = finding.get("place") or {}
    places = {(os.path.basename(place.get("file") or ""), place.get("line") or 0)}
    for frame in (finding["events"] or [{"stack": []}])[-1]["stack"]:
        match = re.search(r"\(.*?([^/]*):([0-9]+)\)$", frame)
        if match:
            places.add((match.group(1), int(match.group(2))))
    return places


def describe_finding(finding: Dict[str, Any]) -> str:
    place = finding.get("place") or {}
    file = os.path.basename(place.get("file") or "?")
    return f"{finding['kind']} at {file}:{place.get('line')}: {finding.get('title')}"


def problems_of_end(case: Case, run: Run, variant: str, bare: bool) -> List[str]:
    """How the program should not have ended."""
    if "signal-unsafe call" in run.output:
        return [f"{variant}: the thread sanitizer reports a handler of the checker"]
    report = run.sanitizer_report()
    if report and variant == "corrected":
        return [f"corrected: {line}" for line in report.splitlines()[:20]]
    may_crash = variant == "wrong" and case.crash in (("bare", "checked") if bare else ("checked",))
    crashed = may_crash and run.status in CRASHES
    if run.status != 0 and not crashed and not report:
        return [f"{variant}: {run.last_lines()}"]
    if not bare and not crashed and not run.is_endless and not run.has_summary():
        return [f"{variant}: no summary: {run.last_lines()}"]
    return []


def problems_of_times(finding: Dict[str, Any]) -> List[str]:
    """Events that are not in their order, or without the request that the device has."""
    events = finding["events"]
    times = [each["time"] for each in events if each["time"] is not None] + [finding["time"]]
    posted = {each["posted"] for each in events}
    problems = []
    if times != sorted(times):
        problems.append(f"times {times}: {describe_finding(finding)}")
    if finding["kind"] in OWNED and not posted & {"outstanding", "complete"}:
        problems.append(f"no event has posted a request: {describe_finding(finding)}")
    return problems


def problems_of_findings(case: Case, run: Run) -> List[str]:
    """Of the wrong program: findings that are missing, and others."""
    problems = [f"wrong: {text}" for each in run.findings for text in problems_of_times(each)]
    places = marked_lines(case)
    expected = 0
    for each in run.findings:
        if each["kind"] == case.kind and places_of(each) & places:
            expected += 1
        elif each["kind"] not in case.also:
            problems.append(f"wrong: not expected: {describe_finding(each)}")
    if expected == 0 and case.kind not in SANITIZERS:
        lines = ", ".join(sorted(f"{name}:{line}" for name, line in places))
        problems.append(f"wrong: no {case.kind} at {lines}")
    return problems


def problems_of_report(case: Case, run: Run) -> List[str]:
    """Of a wrong program that a sanitizer must report."""
    report = run.sanitizer_report()
    places = [f"{name}:{line}" for name, line in marked_lines(case)]
    if SANITIZERS[case.kind] not in report or not any(
        re.search(re.escape(each) + r"\b", report) for each in places
    ):
        return [f"wrong: {case.kind} does not report {places}: {run.last_lines()}"]
    if case.kind == "asan" and EXPLANATION not in run.output:
        return [f"wrong: the report does not say which request has the memory: {run.last_lines()}"]
    if case.kind == "asan" and not any(each["kind"] == "early-access" for each in run.findings):
        return ["wrong: the access is no finding"]
    return []


def try_case(case: Case, options: Options) -> Tuple[List[str], str]:
    """Run both variants. Returns the problems, and what the wrong program did."""
    problems = []
    bare = options.bare
    if case.kind != "none" and not marked_lines(case):
        problems.append(f"no line of {case.name} has the comment: wrong: {case.kind}")
    corrected = Run(case, "corrected", options)
    problems += problems_of_end(case, corrected, "corrected", bare)
    problems += [f"corrected: {describe_finding(each)}" for each in corrected.findings]
    if case.kind == "none":
        return problems, f"{len(corrected.findings)} findings"
    wrong = Run(case, "wrong", options)
    problems += problems_of_end(case, wrong, "wrong", bare)
    if not bare:
        problems += problems_of_findings(case, wrong)
    if case.kind in SANITIZERS:
        problems += problems_of_report(case, wrong)
    ended = "crashed" if wrong.status < 0 else "ended"
    return problems, f"{ended}, {len(wrong.findings)} findings"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("driver", choices=["rxe", "siw"])
    parser.add_argument("--bare", action="store_true")
    parser.add_argument("--late", action="store_true")
    parser.add_argument("--sanitizer", choices=sorted(SANITIZERS), default="")
    parser.add_argument("--only", metavar="REGEX", default="")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    driver = arguments.driver
    options = Options(driver, arguments.bare, arguments.sanitizer, arguments.late)
    cases = [each for each in list_cases(options) if re.search(arguments.only, each.name)]
    random.Random(arguments.seed).shuffle(cases)
    print(f"1..{len(cases)}")
    rows = []
    num_failed = 0
    for number, case in enumerate(cases, 1):
        problems, summary = try_case(case, options)
        num_failed += bool(problems)
        print(f"{'not ' if problems else ''}ok {number} {driver}: {case.kind}: {case.name}")
        for problem in problems:
            print(f"#   {problem}")
        sys.stdout.flush()
        result = "not as expected" if problems else "as expected"
        rows.append(f"# {driver}: {case.kind:27} {case.name:32} {result:16} {summary}")
    print("\n".join(sorted(rows)))
    print(f"# {driver}: {len(cases)} cases, {num_failed} not as expected")
    return 1 if num_failed or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
