#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Runs the program differential over the stock provider and over ours, and compares the results.

    compare_providers.py rxe|siw [--whole] [--cases REGEX] [--seed N] [--steps N] [--max-shown N]

Prints TAP: a case for each group of the program's cases, which fails if a result differs and
differences.csv does not list it; and one that fails if a line of differences.csv matches nothing
though its cases ran. Its columns: driver; regular expressions for the whole name of a case, and for
all fields that differ, of the stock provider and of ours; the reason. "as CASE" in place of the last
regular expression: ours has the fields of that other case, except bad_wr; CASE may refer to groups of
the name. A difference that only some runs have has a reason that begins with "at times: ".

Runs a tenth of the cases, or all with --whole or WHOLE=1 in the environment; 500 of them are requests
chosen at random by the seed.
"""

import argparse
import csv
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Dict, List, Optional, TextIO

HERE = Path(__file__).parent
BUILD = Path(os.environ["BUILD"])
Results = Dict[str, str]  # case: its fields


def without(result: str, other: str) -> str:
    """The fields of a result that the other does not have."""
    fields = other.split()
    return " ".join(field for field in result.split() if field not in fields)


def fields_but_bad_wr(result: str) -> List[str]:
    return [field for field in result.split() if not field.startswith("bad_wr=")]


class Difference:
    """A line of differences.csv."""

    def __init__(self, number: int, row: Dict[str, str]) -> None:
        self.number, self.reason, self.num_matches = number, row["reason"], 0
        self.cases = row["cases"]
        self.stock_fields, self.our_fields = row["stock"], row["ours"]

    def matches(self, case: str, stock: Results, tested: Results) -> bool:
        name = re.fullmatch(self.cases, case)
        left, right = stock.get(case, "none"), tested.get(case, "none")
        if name is None or not re.fullmatch(self.stock_fields, without(left, right)):
            return False
        if self.our_fields.startswith("as "):
            other = name.expand(self.our_fields.removeprefix("as "))
            if other not in tested:
                sys.exit(
                    f"differences.csv, line {self.number}: {other} did not run; select it, too"
                )
            matched = fields_but_bad_wr(right) == fields_but_bad_wr(tested[other])
        else:
            matched = re.fullmatch(self.our_fields, without(right, left)) is not None
        self.num_matches += matched
        return matched


def read_differences(driver: str) -> List[Difference]:
    with open(HERE / "differences.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [
        Difference(number, row)
        for number, row in enumerate(rows, start=2)
        if row["driver"] in (driver, "both")
    ]


def execute(driver: str, plugin: Optional[str], options: argparse.Namespace) -> Results:
    """The results of the program with this plugin; None: with the stock provider."""
    env = dict(os.environ)
    for name in ("RDMAV_DRIVERS", "IBV_DRIVERS"):
        env.pop(name, None)
    prefix = f"SOFTRDMA_{driver.upper()}"
    command = [
        str(BUILD / "tests/system/provider/differential/differential"),
        driver,
        env[f"{prefix}_DEVICE"],
        env.get(f"{prefix}_GID_INDEX", "0"),
        env[f"{prefix}_ADDRESS"],
        "1" if options.whole else "10",
        options.cases,
        str(options.seed),
        str(options.steps),
    ]
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as log:
        if plugin:
            env.update(RDMAV_DRIVERS=plugin, VERBS_LOG_LEVEL="3", VERBS_LOG_FILE=log.name)
        output = subprocess.run(
            command, env=env, stdout=subprocess.PIPE, text=True, check=True
        ).stdout
        if plugin and "is served by coherdma" not in log.read():
            sys.exit("libibverbs has not loaded our plugin")
    results: Results = {}
    for line in output.splitlines():
        case, fields = line.split(" ", 1)
        if case in results:
            sys.exit(f"two cases are named {case}")
        results[case] = fields
    return results


def find_differences(
    stock: Results, tested: Results, listed: List[Difference]
) -> Dict[str, List[str]]:
    """The differences that are not listed, by group. All groups are keys."""
    differences: Dict[str, List[str]] = {}
    for case in dict.fromkeys([*stock, *tested]):
        group = differences.setdefault(case.split("/")[0], [])
        left, right = stock.get(case, "none"), tested.get(case, "none")
        if left == right and not re.search("(untried|crash)=", left):
            continue
        # A sum and not any(): each line that matches has to count its match.
        if not sum(difference.matches(case, stock, tested) for difference in listed):
            group += [case, f"  stock {left}", f"  ours  {right}"]
    return differences


def main(out: TextIO) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("driver", choices=["rxe", "siw"])
    parser.add_argument("--whole", action="store_true", default=os.environ.get("WHOLE") == "1")
    parser.add_argument("--cases", default="")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=500, help="random cases")
    parser.add_argument("--max-shown", type=int, default=20, help="differences of a group")
    options = parser.parse_args()
    listed = read_differences(options.driver)
    stock = execute(options.driver, None, options)
    tested = execute(options.driver, str(BUILD / "provider/libcoherdma"), options)
    left_out = [case for case, fields in tested.items() if "left_out=" in fields]
    for case in left_out:
        del stock[case], tested[case]
    differences = find_differences(stock, tested, listed)
    if not differences:
        sys.exit("no case ran")
    if not options.cases:
        differences["differences.csv"] = [
            f"line {difference.number} matches nothing: {difference.reason}"
            for difference in listed
            if difference.num_matches == 0
            and not difference.reason.startswith("at times: ")
            and (options.whole or any(re.fullmatch(difference.cases, case) for case in tested))
        ]
    print(f"1..{len(differences)}", file=out)
    print(f"# {len(left_out)} cases are left out, which stop this kernel", file=out)
    for number, (group, lines) in enumerate(differences.items(), start=1):
        num_cases = sum(case.startswith(f"{group}/") for case in tested)
        result = "not ok" if lines else "ok"
        name = f"{options.driver}: {group}: as the stock provider, or as listed"
        print(f"{result} {number} - {name}", file=out)
        print(f"# {num_cases} cases, {len(lines) // 3} differences", file=out)
        for line in lines[: 3 * options.max_shown]:
            print(f"# {line}", file=out)
    return 1 if any(differences.values()) else 0


sys.exit(main(sys.stdout))
