#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Runs tests of a build folder with CTest, and prints a summary.

    run_tests.py BUILD [--list] [--gate] [--commit COMMIT] [-k REGEX] [-j N] [CTEST OPTION...]

CTest's options select tests (-L LABEL). -k: those whose name matches, or whose "NAME: CASE" for one of
their bats cases; of these tests only the cases that match. --gate: a test in a guest that fails is run
once more, alone, in a fresh guest; if it passes then, it has passed, and the summary names it as flaky.

The results of each test are in BUILD/logs: NAME.results, and NAME.log, of which NAME.first.* are those of
a first try. --commit: BUILD was built of this commit; a suite of which all tests have run and passed is recorded
in tests/green.csv (tests/suites.py), unless the checkout has changed by then.
Exit status: 0 no test failed, 1 a test failed, or another run uses BUILD, 2 no test is selected.
"""

import argparse
import collections
import contextlib
import fcntl
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree
from typing import Any, Dict, List

from run_test import bats_cases
from suites import LEDGER, Ledger

RESOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "resources.json")
NUM_GUESTS = 2  # as in resources.json: tests in guests that run at a time


class Test:
    """A test as ctest --show-only prints it."""

    def __init__(self, entry: Dict[str, Any]) -> None:
        self.name: str = entry["name"]
        self.files = [word for word in entry.get("command", []) if word.endswith(".bats")]
        properties = {each["name"]: each["value"] for each in entry["properties"]}
        self.labels: List[str] = properties.get("LABELS", [])
        self.num_processors = int(properties.get("PROCESSORS", 1))
        self.is_fixture = "FIXTURES_SETUP" in properties

    def suite(self) -> str:
        """Empty: it is in the gate."""
        return next((label[6:] for label in self.labels if label.startswith("suite:")), "")

    def matches(self, pattern: str) -> bool:
        names = [self.name, *(f"{self.name}: {case}" for case in bats_cases(self.files))]
        return any(re.search(pattern, name) for name in names)


class Result:
    """Of one run of a test: the rows of its file of results (ok, FAIL or skip, the case, the reason,
    the seconds), and the seconds that CTest counted."""

    def __init__(self, logs: str, name: str, seconds: float, has_passed: bool) -> None:
        self.name, self.seconds, self.has_passed = name, seconds, has_passed
        self.log = f"{logs}/{name}.log"
        self.rows: List[List[str]] = []
        if os.path.exists(f"{logs}/{name}.results"):
            with open(f"{logs}/{name}.results", encoding="utf-8") as file:
                self.rows = [line.rstrip("\n").split("\t") for line in file]
        if not has_passed and not any(row[0] == "FAIL" for row in self.rows):
            # Killed by CTest, or not started because of a fixture that failed.
            self.rows.append(["FAIL", "all", "CTest reports it as failed or not run", ""])

    def count(self, result: str) -> int:
        return sum(row[0] == result for row in self.rows)

    def first_failure(self) -> str:
        row = next(row for row in self.rows if row[0] == "FAIL")
        return f"{row[1]}: {row[2]}" if row[2] else row[1]


class Runner:
    def __init__(self, build: str) -> None:
        self.build = os.path.abspath(build)
        self.logs = f"{self.build}/logs"
        os.makedirs(self.logs, exist_ok=True)

    def ctest(self, *options: str) -> List[str]:
        return ["ctest", "--test-dir", self.build, *options]

    def select(self, options: List[str]) -> List[Test]:
        """The tests that these options of CTest select."""
        command = self.ctest("--show-only=json-v1", *options)
        shown = subprocess.run(command, stdout=subprocess.PIPE, check=False, text=True)
        if shown.returncode != 0:
            sys.exit(2)  # ctest has said why
        return [Test(entry) for entry in json.loads(shown.stdout)["tests"]]

    def run(self, num_jobs: int, options: List[str]) -> Dict[str, Result]:
        """The results of the tests that were run, in order of their end."""
        junit = f"{self.logs}/junit.xml"
        options += ["--output-on-failure", "--no-label-summary", "--output-junit", junit]
        options += ["--resource-spec-file", RESOURCES, "-j", str(num_jobs)]
        with contextlib.suppress(FileNotFoundError):
            os.unlink(junit)  # of an earlier run
        ctest = subprocess.run(self.ctest(*options), check=False)  # the file has what failed
        if not os.path.exists(junit):
            sys.exit(f"scripts/test: ctest ended with status {ctest.returncode}, wrote no {junit}")
        results = {}
        for case in xml.etree.ElementTree.parse(junit).getroot().iter("testcase"):
            name, status = case.attrib["name"], case.attrib["status"]
            skipped = case.find("skipped")
            passed = status == "run" or (
                skipped is not None and skipped.attrib["message"].startswith("SKIP_RETURN_CODE")
            )
            results[name] = Result(self.logs, name, float(case.attrib["time"]), passed)
        return results

    def try_again(self, failed: List[Result]) -> Dict[str, Result]:
        """Run failed tests once more, one at a time. What the first try wrote is kept as NAME.first.*."""
        for result in failed:
            for suffix in ("log", "results", "console"):
                if os.path.exists(f"{self.logs}/{result.name}.{suffix}"):
                    first = f"{self.logs}/{result.name}.first.{suffix}"
                    os.replace(f"{self.logs}/{result.name}.{suffix}", first)
            result.log = f"{self.logs}/{result.name}.first.log"
        names = "|".join(re.escape(result.name) for result in failed)
        print(f"\nonce more, alone: {len(failed)} tests that failed in guests", flush=True)
        return self.run(1, ["-R", f"^({names})$"])


def green_suites(
    tests: List[Test], results: Dict[str, Result], num_jobs: int, case_filter: str
) -> Dict[str, float]:
    """The suites of which every test has run and passed, with the seconds that each took. Some cases
    of a test may have been skipped."""
    seconds: Dict[str, float] = collections.defaultdict(float)
    incomplete = {""}
    for test in tests:
        result = results.get(test.name)
        if not result or not result.has_passed:
            incomplete.add(test.suite())
            continue
        # A fixture that passed has no rows.
        has_run = result.count("ok") or (test.is_fixture and not result.rows)
        if not has_run or (case_filter and not re.search(case_filter, test.name)):
            incomplete.add(test.suite())
            continue
        slots = min(num_jobs, NUM_GUESTS if "lab" in test.labels else os.cpu_count() or 1)
        seconds[test.suite()] += result.seconds * min(test.num_processors, slots) / slots
    return {suite: seconds[suite] for suite in seconds if suite not in incomplete}


def record_green(green: Dict[str, float], commit: str) -> None:
    ledger = Ledger(os.getcwd())
    suites = ", ".join(sorted(green))
    if not commit or commit != ledger.clean_commit():
        print(f"\nnot recorded in {LEDGER}, since the files are not those of a commit: {suites}")
        return
    try:
        ledger.record(green, commit)
        print(f"\nrecorded in {LEDGER}: {suites}")
    except OSError as problem:
        print(f"\nnot recorded in {LEDGER}: {suites}: {problem}")


def print_summary(results: Dict[str, Result], flaky: List[Result]) -> None:
    """flaky: the first results of tests that passed when run once more."""
    areas: Dict[str, List[float]] = collections.defaultdict(list)
    for result in results.values():
        areas[result.name.split(".")[0]].append(result.seconds)
    print("\nseconds  tests  area")
    for area, seconds in sorted(areas.items(), key=lambda item: -sum(item[1])):
        print(f"{sum(seconds):7.1f}  {len(seconds):5}  {area}")
    print()
    for result in results.values():
        for row in result.rows:
            if row[0] == "skip":
                print(f"skipped {result.name}: {row[1]}: {row[2]}")
    for result in flaky:
        print(f"flaky: {result.name}: {result.first_failure()} ({result.log})")
    if flaky:
        print(f"flaky: {len(flaky)} passed when run once more")
    for result in results.values():
        for row in result.rows:
            if row[0] == "FAIL":
                print(f"failed {result.name}: {row[1]} ({result.log})")
    count = [sum(each.count(kind) for each in results.values()) for kind in ("ok", "FAIL", "skip")]
    print("cases: {} passed, {} failed, {} skipped".format(*count))


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs tests of a build folder with CTest.")
    parser.add_argument("build", metavar="BUILD")
    parser.add_argument("--list", action="store_true", help="print the tests, do not run them")
    parser.add_argument("--gate", action="store_true", help="a second try for tests in guests")
    parser.add_argument(
        "--commit", default="", help="of which BUILD was built, without other changes"
    )
    parser.add_argument("-k", metavar="REGEX", help="only tests or bats cases that match")
    parser.add_argument("-j", metavar="N", type=int, default=os.cpu_count() or 1)
    options, ctest_options = parser.parse_known_args()
    runner = Runner(options.build)
    try:
        tests = runner.select(ctest_options)
        if options.k:
            tests = [test for test in tests if test.matches(options.k)]
            os.environ["TEST_FILTER"] = options.k
    except re.error as problem:
        print(f"scripts/test: -k {options.k}: not a regular expression: {problem}", file=sys.stderr)
        return 2
    if not tests:
        print("scripts/test: no test is selected; see: scripts/test --list", file=sys.stderr)
        return 2
    if options.list:
        for test in tests:
            gate = "gate" if "gate" in test.labels else ""
            others = " ".join(label for label in test.labels if label != "gate")
            print(f"{gate:4}  {test.name:40}  {others}")
        return 0
    if options.k:  # CTest selects the tests, run_test.py their cases by TEST_FILTER
        names = "|".join(re.escape(test.name) for test in tests)
        ctest_options += ["-R", f"^({names})$"]
    lock = open(f"{runner.logs}/lock", "w", encoding="utf-8")  # until this process ends
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print(
            f"scripts/test: another run writes its results to {runner.logs}: wait for its end, "
            "or set BUILD to another folder",
            file=sys.stderr,
        )
        return 1
    for file in os.listdir(runner.logs):
        if file.endswith((".results", ".first.log", ".first.console")):
            os.unlink(f"{runner.logs}/{file}")
    all_tests = runner.select([])
    results = runner.run(options.j, ctest_options)
    failed = [result for result in results.values() if not result.has_passed]
    in_guests = {test.name for test in tests if "lab" in test.labels}
    flaky: List[Result] = []
    if options.gate and failed and all(result.name in in_guests for result in failed):
        again = runner.try_again(failed)
        flaky = [result for result in failed if again[result.name].has_passed]
        results.update({result.name: again[result.name] for result in failed})
    case_filter = os.environ.get("TEST_FILTER", "")
    green = green_suites(all_tests, results, options.j, case_filter)
    if green and not any(option.startswith("--repeat") for option in ctest_options):
        record_green(green, options.commit)
    print_summary(results, flaky)
    return 0 if all(result.has_passed for result in results.values()) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:  # CTest, in the same process group, has ended the tests
        sys.exit(130)
