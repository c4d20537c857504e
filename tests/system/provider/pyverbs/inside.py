# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""inside.py RESULTS CHOICE: rdma-core's suite in this process; each result is a line of RESULTS.

The folder it is started in holds the suite. CHOICE is JSON: device, gid, only (names of tests, or
null for all), done (names to leave out). A test that begins is a line, too, so that the one in
which this process dies or hangs is known.
"""

import importlib
import json
import os
import random
import re
import sys
import time
import unittest
from typing import Any, Iterator, List

VENDOR_MODULES = re.compile(r"\.test_(mlx5|efa|efadv|cuda)_?")  # modules for devices of one vendor


class LineResult(unittest.TestResult):
    def __init__(self, path: str):
        super().__init__()
        self.file = open(path, "a", encoding="utf-8")
        self.began = 0.0
        self.status, self.why = "pass", ""

    def write_line(self, test: unittest.TestCase, **more: Any) -> None:
        self.file.write(json.dumps({"test": test.id(), **more}) + "\n")
        self.file.flush()

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        # The test makes the same choices with each provider.
        random.seed(test.id())
        self.began, self.status, self.why = time.monotonic(), "pass", ""
        self.write_line(test, status="began")

    def stopTest(self, test: unittest.TestCase) -> None:
        super().stopTest(test)
        seconds = round(time.monotonic() - self.began, 2)
        self.write_line(test, status=self.status, why=self.why, seconds=seconds)

    def _set_failure(self, error: Any) -> None:
        self.status, self.why = "fail", f"{error[0].__name__}: {error[1]}"

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        self._set_failure(err)
        if not isinstance(test, unittest.TestCase):  # what goes before the tests of a class
            self.write_line(test, status=self.status, why=self.why, seconds=0)

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        self._set_failure(err)

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        if err:
            self._set_failure(err)

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        self.status, self.why = "fail", "passed, which it should not"

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self.status, self.why = "skip", reason


def flatten(tests: unittest.TestSuite) -> Iterator[Any]:
    for test in tests:
        if isinstance(test, unittest.TestSuite):
            yield from flatten(test)
        else:
            yield test


def main(results: str, choice: Any) -> None:
    """Runs the chosen tests; see the module's text."""
    sys.path.insert(0, os.getcwd())
    arguments = importlib.import_module("args_parser").parser
    sys.argv[1:] = ["--dev", choice["device"], "--gid", str(choice["gid"])]
    arguments.parse_args()
    all_tests: List[Any] = list(
        flatten(unittest.defaultTestLoader.loadTestsFromModule(importlib.import_module("tests")))
    )
    only, done = choice["only"], set(choice["done"])
    chosen_tests = [
        test
        for test in all_tests
        if (test.id() in only if only else not VENDOR_MODULES.search(test.id()))
        and test.id() not in done
    ]
    unittest.TestSuite(chosen_tests).run(LineResult(results))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
