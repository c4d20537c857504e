#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Runs programs that use RDMA over the stock provider and over ours.

    battery.py rxe|siw [--only REGEX] [--times N] [--plugin PATH] [--json FILE]

Runs where a device of the driver exists (in `softrdma run --driver DRIVER`). Prints TAP, a case for each row
of rows.py, which fails if the program works with stock and not with ours. If the results differ,
each provider has TRIES runs in all, and ours must pass as often as stock; its failures by a known
fault are not held against it if it passes once. A case also fails if docs/programs.md, for the
installed version of the package, says that the program works with stock, and it does not. With
--times, each provider has N runs of each row, and a program that works has to do so in all of them.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Dict, Iterator, List, Set, Tuple

from rows import Row, all_rows
from run_pair import BUILD, Result, run_pair

TRIES = 5
PAGE = Path(__file__).resolve().parents[4] / "docs/programs.md"
PROVIDERS = ("stock", "ours")


def device_facts(driver: str) -> Dict[str, str]:
    """What rows.py fills in."""
    prefix = f"SOFTRDMA_{driver.upper()}"
    netdev = os.environ[f"{prefix}_NETDEV"]
    with os.popen(f"ip -6 -o addr show dev {netdev} scope link") as lines:
        address6 = lines.read().split("inet6 ")[1].split("/")[0]
    return {
        "device": os.environ[f"{prefix}_DEVICE"],
        "gid": os.environ[f"{prefix}_GID_INDEX"],
        "address": os.environ[f"{prefix}_ADDRESS"],
        "address6": f"{address6}%{netdev}",
        "netdev": netdev,
    }


def num_passed(results: List[Result]) -> int:
    return sum(not result.reason for result in results)


def is_known_fault(row: Row, result: Result) -> bool:
    return (
        bool(row.fault)
        and re.search(row.fault, f"{result.reason}\n{result.output}", re.MULTILINE) is not None
    )


def page_rows(text: str) -> Iterator[Tuple[str, str, List[str]]]:
    """Of each row of docs/programs.md: the package with its version, the program, the four results."""
    package = ""
    for line in text.splitlines():
        if line.startswith("## "):
            package = line.removeprefix("## ")
        elif match := re.match(r"\| `(.*?)` \|(.*)", line):
            yield package, match[1], [cell.strip() for cell in match[2].split("|")[:4]]


def works(cell: str) -> bool:
    return cell == "yes" or re.match("[1-9] of", cell) is not None


def known_to_work(driver: str) -> Set[Tuple[str, str]]:
    """The package with its version, and the program, of rows that worked with stock."""
    column = {"rxe": 0, "siw": 2}[driver]
    rows = page_rows(PAGE.read_text(encoding="utf-8"))
    return {(package, name) for package, name, cells in rows if works(cells[column])}


def run_row(
    row: Row, plugins: Dict[str, str], should_work: bool, times: int
) -> Dict[str, List[Result]]:
    """The results of each provider, as many for one as for the other: times, or if that is 0, as many as it takes."""
    results: Dict[str, List[Result]] = {provider: [] for provider in PROVIDERS}
    for _ in range(times or TRIES):
        for provider in PROVIDERS:
            with tempfile.TemporaryDirectory() as folder:
                results[provider].append(run_pair(row, plugins[provider], Path(folder)))
        first = [bool(results[provider][0].reason) for provider in PROVIDERS]
        if not times and first[0] == first[1] and not (should_work and first[0]):
            break
    return results


def is_as_good(row: Row, results: Dict[str, List[Result]]) -> bool:
    """Whether the program works with ours if it works with stock."""
    num_stock, num_ours = num_passed(results["stock"]), num_passed(results["ours"])
    failures = [result for result in results["ours"] if result.reason]
    return num_ours >= num_stock or (
        num_ours > 0 and all(is_known_fault(row, res) for res in failures)
    )


def name_cause(row: Row, driver: str, result: Result) -> Result:
    """The result with the cause that the row knows for its reason."""
    pattern, cause = row.causes.get(driver, ("", ""))
    return result._replace(reason=cause) if cause and re.search(pattern, result.reason) else result


def describe(results: List[Result]) -> Dict[str, Any]:
    reasons = [result.reason for result in results if result.reason]
    return {
        "passed": num_passed(results),
        "tries": len(results),
        "reason": reasons[0] if reasons else "",
    }


def package_version(package: str) -> str:
    command = ["dpkg-query", "-W", "-f", "${Version}", package]
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout


def print_case(number: int, name: str, results: Dict[str, List[Result]], is_good: bool) -> None:
    print(f"{'' if is_good else 'not '}ok {number} - {name}")
    for provider in PROVIDERS:
        facts = describe(results[provider])
        print(f"# {provider}: {facts['passed']} of {facts['tries']} {facts['reason']}".rstrip())
    if not is_good:
        runs = [*results["ours"], *results["stock"]]
        failure = next(result for result in runs if result.reason)
        for line in failure.output.splitlines():
            print(f"# {line}")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("driver", choices=("rxe", "siw"))
    parser.add_argument("--only", default="", metavar="REGEX")
    parser.add_argument("--times", type=int, default=0, metavar="N")
    parser.add_argument("--plugin", default=str(BUILD / "provider/libcoherdma"))
    parser.add_argument("--json")
    options = parser.parse_args()
    plugins = {"stock": "", "ours": options.plugin}
    facts = device_facts(options.driver)
    expected = known_to_work(options.driver)
    rows = [row for row in all_rows() if re.search(options.only, row.name)]
    table: List[Dict[str, Any]] = []
    all_good = True
    print(f"1..{len(rows)}", flush=True)
    for number, row in enumerate(rows, start=1):
        name = f"{options.driver}: {row.name}"
        entry: Dict[str, Any] = {"package": row.package, "name": row.name}
        table.append(entry)
        if not shutil.which(row.name.replace(",", " ").split()[0]):
            print(f"ok {number} - {name} # SKIP {row.package} is not installed", flush=True)
            continue
        if options.driver in row.left_out:
            entry["left_out"] = row.left_out[options.driver]
            print(f"ok {number} - {name} # SKIP {entry['left_out']}", flush=True)
            continue
        should_work = (f"{row.package} {package_version(row.package)}", row.name) in expected
        results = run_row(row.fill_in(facts), plugins, should_work, options.times)
        for provider in PROVIDERS:
            results[provider] = [name_cause(row, options.driver, res) for res in results[provider]]
        num_needed = {"stock": 0, "ours": 0}
        if should_work:
            num_needed = {"stock": max(1, options.times), "ours": options.times}
        is_good = is_as_good(row, results) and all(
            num_passed(results[provider]) >= num_needed[provider] for provider in PROVIDERS
        )
        all_good = all_good and is_good
        entry.update({provider: describe(results[provider]) for provider in PROVIDERS})
        print_case(number, name, results, is_good)
    if options.json:
        packages = {row.package: package_version(row.package) for row in rows}
        document = {"driver": options.driver, "kernel": os.uname().release}
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({**document, "packages": packages, "rows": table}, file, indent=1)
    return 0 if all_good else 1


if __name__ == "__main__":
    sys.exit(main())
