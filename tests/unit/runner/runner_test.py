#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""tests/run_tests.py and tests/run_test.py: results, the second try, the summary, and cleanup."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from typing import Any

TESTS_FOLDER = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..")
RUN_TESTS = os.path.join(TESTS_FOLDER, "run_tests.py")
RUN_TEST = os.path.join(TESTS_FOLDER, "run_test.py")

# Fails at its first run, and passes then.
FLAKY = "echo 1..1; echo run >>runs; [ $(wc -l <runs) -gt 1 ] || { echo not ok 1 - second; echo '# why'; exit 1; }; echo ok 1 - second"


class Runner(unittest.TestCase):
    """Each test makes a build folder with tests of its own."""

    def setUp(self) -> None:
        self.build = tempfile.mkdtemp(prefix="runner-")
        self.addCleanup(shutil.rmtree, self.build)

    def add_test(self, name: str, script: str, *labels: str, **options: Any) -> None:
        """Add a test that runs the shell script, which prints TAP."""
        kind, seconds = options.get("kind", "tap"), options.get("seconds", 60)
        path = f"{self.build}/{name}.sh"
        with open(path, "w", encoding="utf-8") as file:
            file.write(script)
        with open(f"{self.build}/CTestTestfile.cmake", "a", encoding="utf-8") as file:
            command = f"{sys.executable} {RUN_TEST} --timeout {seconds} {name} {kind} sh -e {path}"
            words = " ".join(f'"{word}"' for word in command.split())
            file.write(f'add_test("{name}" {words})\n')
            file.write(
                f'set_tests_properties("{name}" PROPERTIES SKIP_RETURN_CODE 77 '
                f'LABELS "{";".join(labels)}" WORKING_DIRECTORY "{self.build}")\n'
            )

    def run_tests(self, expected_status: int, *options: str) -> str:
        environment = {**os.environ, "BUILD": self.build}
        environment.pop("TEST_FILTER", None)
        result = subprocess.run(
            [RUN_TESTS, self.build, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            text=True,
            check=False,
        )
        self.assertEqual(result.returncode, expected_status, result.stdout)
        return result.stdout

    def last_line(self, output: str) -> str:
        return output.splitlines()[-1]

    def test_passed_cases_are_counted(self) -> None:
        self.add_test("area.good", "echo 1..2; echo ok 1 - a; echo ok 2 - b", "gate")
        output = self.run_tests(0)
        self.assertEqual(self.last_line(output), "cases: 2 passed, 0 failed, 0 skipped")
        self.assertRegex(output, r"(?m)^ +[0-9.]+ +1  area$")

    def test_failed_case_is_named_with_output_log_and_command(self) -> None:
        lines = "".join(f"echo '# line {number}'; " for number in range(30))
        self.add_test("area.bad", f"echo 1..2; echo ok 1 - a; echo not ok 2 - b; {lines} exit 1")
        output = self.run_tests(1)
        self.assertEqual(self.last_line(output), "cases: 1 passed, 1 failed, 0 skipped")
        log = f"{self.build}/logs/area.bad.log"
        self.assertIn(f"failed area.bad: b ({log})", output)
        self.assertRegex(output, r"FAIL b\n +line 10\n")
        self.assertIn("line 29", output)
        self.assertIn(f"log:   {log}\n  again: scripts/test -k '^area\\.bad$'", output)

    def test_skipped_case_has_its_reason(self) -> None:
        self.add_test("area.some", "echo 1..2; echo ok 1 - a; echo 'ok 2 - b # skip no device'")
        self.add_test("area.none", "echo no kernel; exit 77")
        output = self.run_tests(0)
        self.assertIn("skipped area.some: b: no device\n", output)
        self.assertIn("skipped area.none: all: no kernel\n", output)
        self.assertEqual(self.last_line(output), "cases: 1 passed, 0 failed, 2 skipped")

    def test_truncated_or_missing_tap_fails(self) -> None:
        for name, script in (
            ("cut", "echo 1..2; echo ok 1 - a"),
            ("empty", "true"),
            ("crashed", "echo 1..1; echo ok 1 - a; kill -SEGV $$"),
        ):
            self.add_test(f"area.{name}", script)
        output = self.run_tests(1)
        self.assertIn("failed area.cut: 1 cases ran, 2 were planned", output)
        self.assertIn("failed area.empty: 0 cases ran, none were planned", output)
        self.assertIn("failed area.crashed: exit status -11, but no case failed", output)

    def test_command_is_one_case(self) -> None:
        self.add_test("area.true", "true", kind="command")
        self.add_test("area.false", "echo the reason; false", kind="command")
        output = self.run_tests(1)
        self.assertIn("failed area.false: area.false", output)
        self.assertEqual(self.last_line(output), "cases: 1 passed, 1 failed, 0 skipped")

    def test_test_that_hangs_is_killed_and_fails(self) -> None:
        self.add_test("area.hangs", "sleep 1000", seconds=0.5)
        self.assertIn("failed area.hangs: still running after 0 s", self.run_tests(1))

    def test_processes_left_behind_are_killed(self) -> None:
        self.add_test("area.leaves", "setsid sleep 4242.5 & echo 1..1; echo ok 1 - a")
        self.run_tests(0)
        with self.assertRaises(subprocess.CalledProcessError):
            subprocess.run(["pgrep", "-f", "^sleep 4242.5$"], check=True)

    def test_interrupt_ends_the_tests(self) -> None:
        self.add_test("area.long", "touch started; sleep 4242.25")
        runner = subprocess.Popen(
            [RUN_TESTS, self.build],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "BUILD": self.build},
            start_new_session=True,
        )
        while not os.path.exists(f"{self.build}/started"):
            self.assertIsNone(runner.poll())
            time.sleep(0.05)
        os.killpg(runner.pid, signal.SIGINT)
        self.assertEqual(runner.wait(), 130)
        while subprocess.run(["pgrep", "-f", "^sleep 4242.25$"], check=False).returncode == 0:
            time.sleep(0.05)

    def test_gate_passes_if_test_in_guest_passes_once_more(self) -> None:
        self.add_test("area.flaky", FLAKY, "gate", "lab")
        self.add_test("area.good", "echo 1..1; echo ok 1 - a", "gate")
        output = self.run_tests(0, "--gate", "-L", "^gate$")
        log = f"{self.build}/logs/area.flaky.first.log"
        self.assertIn(f"flaky: area.flaky: second: why ({log})\n", output)
        self.assertIn("\nflaky: 1 passed when run once more\n", output)
        self.assertEqual(self.last_line(output), "cases: 2 passed, 0 failed, 0 skipped")
        with open(log, encoding="utf-8") as file:
            self.assertIn("not ok 1 - second", file.read())

    def test_gate_fails_if_test_in_guest_fails_twice(self) -> None:
        self.add_test(
            "area.bad", "echo run >>runs; echo 1..1; echo not ok 1 - a; exit 1", "gate", "lab"
        )
        output = self.run_tests(1, "--gate", "-L", "^gate$")
        self.assertIn("failed area.bad: a", output)
        self.assertNotIn("flaky", output)
        with open(f"{self.build}/runs", encoding="utf-8") as file:
            self.assertEqual(len(file.readlines()), 2)

    def test_test_without_guest_has_one_try(self) -> None:
        self.add_test("area.flaky", FLAKY, "gate", "unit")
        self.assertIn("failed area.flaky: second", self.run_tests(1, "--gate", "-L", "^gate$"))

    def test_nothing_is_tried_twice_outside_the_gate(self) -> None:
        self.add_test("area.flaky", FLAKY, "gate", "lab")
        self.assertIn("failed area.flaky: second", self.run_tests(1))

    def test_tests_are_selected_by_label_and_name(self) -> None:
        for name in ("area.a", "area.b", "other.a"):
            self.add_test(name, "echo 1..1; echo ok 1 - a", name.split(".", maxsplit=1)[0])
        self.assertIn("cases: 2 passed", self.run_tests(0, "-L", "^(area)$"))
        self.assertIn("cases: 1 passed", self.run_tests(0, "-k", r"^area\.b$"))
        self.assertIn("no test is selected", self.run_tests(2, "-k", "nothing"))
        self.assertIn("not a regular expression", self.run_tests(2, "-k", "["))

    def test_results_of_an_earlier_run_do_not_count(self) -> None:
        kill_ctest = "kill -KILL $(ps -o ppid= -p $PPID)"  # the parent of run_test.py
        self.add_test("area.kills", f"[ ! -e kill ] || {kill_ctest}; echo 1..1; echo ok 1 - a")
        self.run_tests(0)
        with open(f"{self.build}/kill", "w", encoding="utf-8"):
            pass
        self.assertIn("ctest ended with status -9, wrote no", self.run_tests(1))

    def test_second_run_in_a_build_folder_is_refused(self) -> None:
        self.add_test("area.waits", "touch started; cat fifo; echo 1..1; echo ok 1 - a")
        os.mkfifo(f"{self.build}/fifo")
        first = subprocess.Popen(
            [RUN_TESTS, self.build],
            stdout=subprocess.PIPE,
            env={**os.environ, "BUILD": self.build},
            text=True,
        )
        self.addCleanup(first.kill)
        while not os.path.exists(f"{self.build}/started"):
            self.assertIsNone(first.poll())
            time.sleep(0.05)
        self.assertIn("another run writes its results to", self.run_tests(1))
        with open(f"{self.build}/fifo", "w", encoding="utf-8"):
            pass  # the test goes on
        self.assertIn("cases: 1 passed, 0 failed", first.communicate()[0])

    def test_invalid_ctest_option_is_misuse(self) -> None:
        self.assertIn("given invalid value", self.run_tests(2, "--repeat", "never"))

    def test_list_marks_the_tests_of_the_gate(self) -> None:
        self.add_test("area.a", "exit 1", "gate", "unit")
        self.add_test("area.b", "exit 1", "lab")
        self.assertEqual(
            self.run_tests(0, "--list"), f"gate  {'area.a':40}  unit\n      {'area.b':40}  lab\n"
        )


if __name__ == "__main__":
    unittest.main()
