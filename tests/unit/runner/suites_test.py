#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""tests/suites.py: what is recorded of a run, and the order by age, in a repository made for each test."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from typing import Dict

TESTS_FOLDER = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..")
sys.path.insert(0, TESTS_FOLDER)
sys.dont_write_bytecode = True

from suites import LEDGER, Ledger  # noqa: E402

RUN_TESTS = os.path.join(TESTS_FOLDER, "run_tests.py")
PASSES = "echo 1..1; echo ok 1 - case"
FAILS = "echo 1..2; echo ok 1 - case; echo not ok 2 - other; exit 1"
SKIPPED = "echo no device; exit 77"


class Suites(unittest.TestCase):
    """The repository has the suites first and second; its build folder is beside it."""

    def setUp(self) -> None:
        folder = tempfile.mkdtemp(prefix="suites-")
        self.addCleanup(shutil.rmtree, folder)
        self.root, self.build = f"{folder}/root", f"{folder}/build"
        os.makedirs(f"{self.root}/tests")
        os.mkdir(self.build)
        self.write("tests/suites.txt", "# name, tests\nfirst  a\\..*\nsecond b\\..*\n")
        self.git("init", "-q")
        self.commit()

    def write(self, name: str, text: str) -> None:
        with open(f"{self.root}/{name}", "w", encoding="utf-8") as file:
            file.write(text)

    def git(self, *arguments: str) -> str:
        identity = ["-c", "user.name=test", "-c", "user.email=test@example.invalid"]
        command = ["git", "-C", self.root, *identity, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def commit(self, name: str = "") -> str:
        """Commit all, with a new file of this name; the commit."""
        if name:
            self.write(name, "")
        self.git("add", ".")
        self.git("commit", "-q", "--allow-empty", "-m", "change")
        return self.git("rev-parse", "--short=10", "HEAD")

    def add_test(self, name: str, script: str, label: str, *arguments: str) -> None:
        path = f"{self.build}/{name}.sh"
        with open(path, "w", encoding="utf-8") as file:
            file.write(script)
        run_test = f"{sys.executable} {TESTS_FOLDER}/run_test.py --timeout 60"
        command = [*run_test.split(), name, "tap", "sh", "-e", path, *arguments]
        words = " ".join(f'"{word}"' for word in command)
        with open(f"{self.build}/CTestTestfile.cmake", "a", encoding="utf-8") as file:
            file.write(f'add_test("{name}" {words})\n')
            file.write(
                f'set_tests_properties("{name}" PROPERTIES SKIP_RETURN_CODE 77 LABELS "{label}")\n'
            )

    def run_tests(self, *options: str, test_filter: str = "") -> str:
        """Run the tests as scripts/test does."""
        environment = {**os.environ, "BUILD": self.build, "TEST_FILTER": test_filter}
        commit = Ledger(self.root).clean_commit() or ""
        return subprocess.run(
            [RUN_TESTS, self.build, "--commit", commit, *options],
            stdout=subprocess.PIPE,
            cwd=self.root,
            env=environment,
            text=True,
            check=False,
        ).stdout

    def recorded(self) -> Dict[str, str]:
        """The commit of each suite's green run."""
        return {suite: run.commit for suite, run in Ledger(self.root).runs.items()}

    def test_green_suites_are_recorded_with_the_commit(self) -> None:
        self.add_test("a.one", PASSES, "suite:first")
        self.add_test("b.one", PASSES, "suite:second")
        self.add_test("c.one", PASSES, "gate")
        commit = self.commit()
        self.assertIn(f"recorded in {LEDGER}: first, second\n", self.run_tests())
        self.assertEqual(self.recorded(), {"first": commit, "second": commit})

    def test_suite_is_not_recorded_unless_all_its_tests_ran_and_passed(self) -> None:
        for name, script, options in (
            ("b.fails", FAILS, ""),
            ("b.skipped", SKIPPED, ""),
            ("b.empty", "echo 1..0", ""),
            ("b.left_out", PASSES, "-E left_out"),
        ):
            self.add_test("a.one", PASSES, "suite:first")
            self.add_test("b.passes", PASSES, "suite:second")
            self.add_test(name, script, "suite:second")
            self.run_tests(*options.split())
            self.assertEqual(list(self.recorded()), ["first"], name)
            os.unlink(f"{self.root}/{LEDGER}")
            os.unlink(f"{self.build}/CTestTestfile.cmake")  # the next case has its tests only

    def test_suite_is_not_recorded_when_some_cases_are_left_out(self) -> None:
        self.add_test("a.one", PASSES, "suite:first")
        cases = f"{self.build}/cases.bats"
        with open(cases, "w", encoding="utf-8") as file:
            file.write('@test "case" { true; }\n@test "other" { true; }\n')
        self.add_test("b.one", PASSES, "suite:second", cases)
        self.run_tests("-k", r"a\.one|b\.one")
        self.assertEqual(set(self.recorded()), {"first", "second"})
        os.unlink(f"{self.root}/{LEDGER}")
        self.run_tests("-k", r"a\.one|case")
        self.assertEqual(set(self.recorded()), {"first"})
        os.unlink(f"{self.root}/{LEDGER}")
        self.run_tests(test_filter=r"a\.one|case")
        self.assertEqual(set(self.recorded()), {"first"})

    def test_nothing_is_recorded_of_uncommitted_changes(self) -> None:
        self.git("config", "status.showUntrackedFiles", "no")
        self.add_test("a.one", PASSES, "suite:first")
        self.write("changed", "")
        self.assertIn("not recorded", self.run_tests())
        self.assertEqual(self.recorded(), {})

    def test_nothing_is_recorded_if_the_commit_changes_after_the_build(self) -> None:
        self.add_test("a.one", PASSES, "suite:first")
        built = self.commit("built")
        self.commit("later")
        self.assertIn("not recorded", self.run_tests("--commit", built))
        self.assertEqual(self.recorded(), {})

    def test_nothing_is_recorded_of_tests_that_were_repeated(self) -> None:
        script = f"[ -e {self.build}/again ] || {{ touch {self.build}/again; {FAILS}; }}; {PASSES}"
        self.add_test("a.one", script, "suite:first")
        self.run_tests("--repeat", "until-pass:2")
        self.assertEqual(self.recorded(), {})

    def test_damaged_rows_are_left_out(self) -> None:
        Ledger(self.root).record({"first": 1.0, "second": 1.0}, self.commit())
        with open(f"{self.root}/{LEDGER}", encoding="utf-8") as file:
            header, first, second = file.read().splitlines()
        for damaged in ("<<<<<<< HEAD", first + ",more", "first,0123456789,2026-11-27,,x86_64-2"):
            self.write(LEDGER, "\n".join([header, damaged, second]))
            self.assertEqual(set(self.recorded()), {"second"}, damaged)

    def test_unwritable_ledger_does_not_hide_the_results(self) -> None:
        self.add_test("a.one", PASSES, "suite:first")
        os.mkdir(f"{self.root}/{LEDGER}.new")
        output = self.run_tests()
        self.assertIn("not recorded", output)
        self.assertIn("cases: 1 passed, 0 failed, 0 skipped", output)

    def test_ledger_itself_is_no_change(self) -> None:
        self.add_test("a.one", PASSES, "suite:first")
        self.run_tests()
        first = self.recorded()["first"]
        self.commit()
        self.assertEqual(Ledger(self.root).by_age()["first"], 0)
        self.commit("changed")
        self.write(LEDGER, "suite,commit,date,seconds,machine\n")
        self.run_tests()
        self.assertNotEqual(self.recorded()["first"], first)

    def test_oldest_suite_is_first(self) -> None:
        ledger = Ledger(self.root)
        old = self.commit("one")
        new = self.commit("two")
        self.commit("three")
        ledger.record({"first": 10.0}, new)
        self.assertEqual(ledger.by_age(), {"second": None, "first": 1})
        ledger.record({"second": 10.0}, old)
        self.assertEqual(list(ledger.by_age().items()), [("second", 2), ("first", 1)])
        ledger.record({"first": 10.0}, "0123456789")  # of another history
        self.assertEqual(list(ledger.by_age().items()), [("first", None), ("second", 2)])

    def test_oldest_suites_that_fit_are_chosen(self) -> None:
        ledger = Ledger(self.root)
        old = self.commit("one")
        new = self.commit("two")
        ledger.record({"first": 590.0}, old)
        ledger.record({"second": 50.0}, new)
        for minutes, suites in (
            (0, []),
            (1, ["second"]),
            (10, ["first"]),
            (11, ["first", "second"]),
        ):
            self.assertEqual(ledger.oldest(minutes), suites)

    def test_table_fits_in_80_columns(self) -> None:
        ledger = Ledger(self.root)
        ledger.record({"first": 90.0}, self.commit())
        lines = list(ledger.table())
        self.assertTrue(all(len(line) <= 80 for line in lines))
        self.assertRegex(lines[1], "^second +never$")
        self.assertRegex(lines[2], r"^first +[0-9a-f]{10}  20..-..-.. +0 +1\.5$")

    def test_row_of_a_removed_suite_is_dropped(self) -> None:
        Ledger(self.root).record({"first": 1.0, "second": 1.0}, self.commit())
        self.write("tests/suites.txt", "first a\n")
        Ledger(self.root).record({"first": 2.0}, self.commit())
        self.assertEqual(set(self.recorded()), {"first"})


if __name__ == "__main__":
    unittest.main()
