#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The suites of tests/suites.txt, and the commit at which each was green last (tests/green.csv).

    suites.py age             print this, the oldest suite first
    suites.py oldest MINUTES  print the names of the oldest suites that take no longer than this together
    suites.py commit          print the commit of the checkout, if it has no other changes

tests/run_tests.py writes tests/green.csv. Commits that change this file alone do not count.
Exit status: 0 success, 1 git failed, 2 invalid arguments, or no suite is that short.
"""

import dataclasses
import datetime
import os
import platform
import signal
import subprocess
import sys
from typing import Dict, Iterable, List, Optional

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LEDGER = "tests/green.csv"
# Assumed of a suite that has never been green.
DEFAULT_SECONDS = 900


@dataclasses.dataclass
class GreenRun:
    """A run in which all tests of a suite were run and passed."""

    suite: str
    commit: str
    date: str
    seconds: int  # of the tests, divided by the number of processors that they shared
    machine: str


FIELDS = [field.name for field in dataclasses.fields(GreenRun)]


class Ledger:
    """The file of green runs in a checkout."""

    def __init__(self, root: str) -> None:
        self.root = root
        with open(f"{root}/tests/suites.txt", encoding="utf-8") as file:
            lines = [line.split() for line in file if line.strip() and line[0] != "#"]
        self.suites = [words[0] for words in lines]
        self.runs: Dict[str, GreenRun] = {}
        self.read()

    def read(self) -> None:
        """A line that is no row, as after a merge with conflicts, is reported and left out."""
        try:
            with open(f"{self.root}/{LEDGER}", encoding="utf-8", errors="replace") as file:
                lines = file.read().splitlines()
        except FileNotFoundError:
            return
        for number, line in enumerate(lines[1:], 2):
            fields = line.split(",")
            if len(fields) == len(FIELDS) and fields[3].isdigit():
                suite, commit, date, seconds, machine = fields
                self.runs[suite] = GreenRun(suite, commit, date, int(seconds), machine)
            else:
                print(f"{LEDGER}:{number}: left out, since it is no row: {line}", file=sys.stderr)

    def git(self, *arguments: str) -> str:
        # Also if another user owns the checkout.
        command = ["git", "-C", self.root, "-c", "safe.directory=*", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def clean_commit(self) -> Optional[str]:
        """The commit of the checkout; None: it has other changes, or is none."""
        try:
            options = ["--porcelain", "--untracked-files=normal"]
            status = self.git("status", *options, "--", ".", f":!{LEDGER}*")
            return None if status else self.git("rev-parse", "--short=10", "HEAD")
        except (subprocess.CalledProcessError, FileNotFoundError):
            return None

    def record(self, seconds_of: Dict[str, float], commit: str) -> None:
        """Write that these suites were green at this commit, with their seconds."""
        today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
        machine = f"{platform.machine()}-{os.cpu_count()}"
        self.read()  # what another run has written meanwhile
        for suite, seconds in seconds_of.items():
            self.runs[suite] = GreenRun(suite, commit, today, round(seconds), machine)
        path = f"{self.root}/{LEDGER}"
        with open(f"{path}.new", "w", encoding="utf-8") as file:
            print(",".join(FIELDS), file=file)
            for suite in sorted(set(self.suites) & set(self.runs)):
                fields = dataclasses.astuple(self.runs[suite])
                print(",".join(map(str, fields)), file=file)
        os.replace(f"{path}.new", path)

    def commits_since(self, run: GreenRun) -> Optional[int]:
        """None: the commit is not part of this history."""
        try:
            self.git("merge-base", "--is-ancestor", run.commit, "HEAD")
        except subprocess.CalledProcessError:
            return None
        return int(self.git("rev-list", "--count", f"{run.commit}..HEAD", "--", ".", f":!{LEDGER}"))

    def by_age(self) -> Dict[str, Optional[int]]:
        """The commits since each suite's green run, the oldest suite first."""
        age = {
            suite: self.commits_since(self.runs[suite]) if suite in self.runs else None
            for suite in self.suites
        }

        def order(suite: str) -> "tuple[float, str]":
            commits = age[suite]
            if commits is None:
                return float("-inf"), ""
            return -commits, self.runs[suite].date

        return {suite: age[suite] for suite in sorted(self.suites, key=order)}

    def table(self) -> Iterable[str]:
        yield f"{'suite':23} {'green at':10}  {'on':10}  {'commits since':>13}  {'minutes':>7}"
        for suite, commits in self.by_age().items():
            run = self.runs.get(suite)
            if run is None:
                yield f"{suite:23} never"
                continue
            since = "unknown" if commits is None else str(commits)
            minutes = run.seconds / 60
            yield f"{suite:23} {run.commit:10}  {run.date:10}  {since:>13}  {minutes:7.1f}"

    def oldest(self, minutes: float) -> List[str]:
        """As many as fit in the time by what they took last; a longer one is left out."""
        chosen, left = [], minutes * 60
        for suite in self.by_age():
            seconds = self.runs[suite].seconds if suite in self.runs else DEFAULT_SECONDS
            if seconds <= left:
                chosen.append(suite)
                left -= seconds
        return chosen


def main() -> int:
    ledger = Ledger(ROOT)
    if sys.argv[1:] == ["age"]:
        print("\n".join(ledger.table()))
        return 0
    if sys.argv[1:] == ["commit"]:
        print(ledger.clean_commit() or "")
        return 0
    if len(sys.argv) != 3 or sys.argv[1] != "oldest" or not sys.argv[2].isdigit():
        print(__doc__, file=sys.stderr)
        return 2
    suites = ledger.oldest(int(sys.argv[2]))
    if not suites:
        print(
            f"scripts/test: no suite takes {sys.argv[2]} minutes or less, and one that was never green"
            f" may take {DEFAULT_SECONDS // 60}; see: scripts/test --age",
            file=sys.stderr,
        )
        return 2
    print("\n".join(suites))
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as problem:
        sys.exit(f"scripts/test: {' '.join(problem.cmd)}: {problem.stderr.strip()}")
    except OSError as problem:
        sys.exit(f"scripts/test: {problem}")
