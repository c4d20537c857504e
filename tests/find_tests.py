#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""find_tests.py REGEX: prints the names of matching tests, separated by |.

Standard input is the output of ctest --show-only=json-v1. A test matches by its name, or by
"NAME: CASE" of one of its bats cases.
"""

import json
import re
import sys

from run_test import bats_cases

if __name__ == "__main__":
    try:
        pattern = re.compile(sys.argv[1])
    except re.error as problem:
        sys.exit(f"-k {sys.argv[1]}: not a regular expression: {problem}")
    names = []
    for test in json.load(sys.stdin)["tests"]:
        name = test["name"]
        files = [argument for argument in test.get("command", []) if argument.endswith(".bats")]
        cases = [f"{name}: {case}" for case in bats_cases(files)]
        if any(pattern.search(text) for text in [name, *cases]):
            names.append(re.escape(name))
    print("|".join(names))
