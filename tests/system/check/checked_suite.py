#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Runs a test suite of another project under the checker.

    checked_suite.py rxe|siw PACKAGE NAME [--ownership] -- COMMAND [ARGUMENT...]

Runs as root where a device of the driver exists (in `softrdma run --driver DRIVER`). Prints TAP: COMMAND
runs without the checker and then with it and --protect, or --ownership, which takes less time, in all verbs
programs that it starts. The first case fails if a test of its TAP output, or the whole command, passes only
without the checker, or if none passes without it; the second one for a finding that explanations.csv does not
have for NAME. For write_findings_page.py, the result is in $LOG_DIR/checked.NAME.DRIVER.json.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Dict, List, NamedTuple, Set

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "provider/battery"))

from battery import package_version  # noqa: E402
from programs import find_unexplained, read_explanations, read_logs  # noqa: E402
from run_pair import BUILD  # noqa: E402

LOADED_DRIVERS = "/etc/libibverbs.d"  # also of programs for which a suite sets RDMAV_DRIVERS
MAX_LINES = 40  # of the output of a test
NOT_OK_LINES = rf"^not ok .*(?:\n#.*){{,{MAX_LINES}}}"


class SuiteRun(NamedTuple):
    status: int
    passed: Set[str]  # numbers and names of tests that were not skipped
    failed: Set[str]
    output: str


def read_tests(output: str, result: str) -> Set[str]:
    """The tests with this result, "ok" or "not ok", in the output, which may be no TAP."""
    tests = re.findall(rf"^{result} (\d+ .*?)(?: in \d+ms)?$", output, re.MULTILINE)
    return {test for test in tests if not re.search("# *skip", test, re.IGNORECASE)}


def run_suite(command: List[str], env: Dict[str, str]) -> SuiteRun:
    result = subprocess.run(
        command,
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    output = result.stdout.decode(errors="replace")
    passed, failed = (read_tests(output, each) for each in ("ok", "not ok"))
    return SuiteRun(result.returncode, passed, failed, output)


def run_checked(command: List[str], checks: str, folder: Path) -> SuiteRun:
    """In a mount namespace in which each process that loads libibverbs' drivers loads the observers."""
    drivers = folder / "drivers"
    drivers.mkdir()
    for path in Path(LOADED_DRIVERS).glob("*.driver"):
        (drivers / path.name).write_bytes(path.read_bytes())
    plugin = BUILD / "provider/libcoherdma-observers"
    (drivers / "coherdma-observers.driver").write_text(f"driver {plugin}\n", encoding="utf-8")
    suppressions = folder / "suppressions"  # a suite may take the checker's text for the program's
    suppressions.write_text("*\n", encoding="utf-8")
    mount = f'mount --bind "$0" {LOADED_DRIVERS} && exec "$@"'
    return run_suite(
        ["unshare", "--mount", "sh", "-c", mount, str(drivers), *command],
        {
            "COHERDMA_OBSERVERS": str(BUILD / "provider/libcoherdma-check.so"),
            "COHERDMA_CHECK_LOG": str(folder / "check.%p"),
            "COHERDMA_CHECK_OPTIONS": checks,
            "COHERDMA_CHECK_SUPPRESS": str(suppressions),
        },
    )


def print_case(number: int, name: str, problems: List[str]) -> None:
    print(f"{'not ' if problems else ''}ok {number} - {name}")
    for line in "\n".join(problems).splitlines():
        print(f"# {line}")
    sys.stdout.flush()


def compare(bare: SuiteRun, checked: SuiteRun) -> List[str]:
    problems = [
        f"passes only without the checker: {name}" for name in sorted(bare.passed - checked.passed)
    ]
    if bare.status != 0 and not bare.passed:
        problems.append(f"nothing passes without the checker: it ends with status {bare.status}")
    if checked.status not in (0, bare.status):
        problems.append(f"ends with status {checked.status}, and {bare.status} without the checker")
    return problems + (
        re.findall(NOT_OK_LINES, checked.output, re.MULTILINE)
        or checked.output.splitlines()[-MAX_LINES:]
        if problems
        else []
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("driver", choices=("rxe", "siw"))
    parser.add_argument("package")
    parser.add_argument("name")
    parser.add_argument(
        "--ownership", dest="checks", action="store_const", const="ownership", default="protect"
    )
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    print("1..2", flush=True)
    bare = run_suite(options.command, {})
    with tempfile.TemporaryDirectory() as folder:
        checked = run_checked(options.command, options.checks, Path(folder))
        logs = read_logs(Path(folder))
    problems = compare(bare, checked)
    if logs.num_processes == 0:
        problems.append("the checker was in no process")
    print_case(
        1, f"{options.driver}: {options.name} works with the checker as without it", problems
    )
    unexplained = find_unexplained(options.name, logs.findings, read_explanations())
    print_case(2, f"{options.driver}: each finding in {options.name} is explained", unexplained)
    print(f"# {len(bare.passed)} tests pass without the checker")
    print(f"# {logs.num_processes} processes, {logs.num_ended} with a summary")
    print(f"# failed without the checker: {sorted(bare.failed) or 'none'}")
    kinds = Counter(finding["kind"] for finding in logs.findings)
    print(f"# findings: {dict(kinds) or 'none'}")
    if "LOG_DIR" in os.environ:
        row = {
            "package": options.package,
            "name": options.name,
            "is_suite": True,
            "bare": bare.status == 0,
            "checked": checked.status == 0,
            "kinds": sorted(kinds),
        }
        packages = {options.package: package_version(options.package)}
        file_name = re.sub("[^A-Za-z0-9]+", "_", options.name)
        path = Path(os.environ["LOG_DIR"]) / f"checked.{file_name}.{options.driver}.json"
        with open(path, "w", encoding="utf-8") as file:
            json.dump(
                {"driver": options.driver, "packages": packages, "rows": [row]}, file, indent=1
            )
    return 1 if problems or unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
