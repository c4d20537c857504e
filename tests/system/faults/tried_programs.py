#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Has each call of programs of other projects fail.

    tried_programs.py rxe|siw [--only REGEX] [--errors LIST] [--ours] [--json FILE]

Runs where a device of the driver exists (in `softrdma run --driver DRIVER`). Prints TAP, a case for each
program of sides.py: `coherdma fault --fail-each`, over the stock provider or with --ours
over coherdma's. A case fails if the program does not work without a fault, and for a crash or hang that
explanations.csv does not have.
"""

import argparse
import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Dict, List, NamedTuple

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "provider/battery"))

from battery import device_facts, package_version  # noqa: E402
from sides import Sides, all_sides  # noqa: E402
from run_pair import BUILD  # noqa: E402

TRIES = 3  # of a program that does not work without a fault: perftest fails at random
LIMIT = 8  # seconds that a run may take, several times what it takes without a fault
BAD_OUTCOMES = ("crashes", "hangs")
# A guest makes connections faster than TCP forgets them, and iWARP's are those of TCP.
MAX_TIME_WAIT = Path("/proc/sys/net/ipv4/tcp_max_tw_buckets")


class Explanation(NamedTuple):
    """Why a program crashes, hangs, goes on wrongly or leaves objects."""

    program: str  # a pattern of the name in sides.py
    call: str  # or several
    errors: str  # those with this outcome; empty: any
    outcome: str
    source: str  # file and line
    explanation: str


def read_explanations() -> List[Explanation]:
    with open(HERE / "explanations.csv", encoding="utf-8", newline="") as file:
        return [Explanation(**row) for row in csv.DictReader(file)]


def is_explained(name: str, trial: Dict[str, Any], known: List[Explanation]) -> bool:
    return any(
        re.fullmatch(each.program, name)
        and trial["call"] in each.call.split()
        and trial["outcome"] == each.outcome
        and (not each.errors or trial["error"] in each.errors.split())
        for each in known
    )


def describe(trial: Dict[str, Any]) -> str:
    return (
        f"{trial['program']}: {trial['call']} number {trial['number']} fails {trial['error']}: "
        f"{trial['outcome']} ({trial['place']}): {trial['last_line']}"
    )


def fail_each(sides: Sides, errors: str, env: Dict[str, str], report: Path) -> str:
    """Writes the report. Returns why there is none, or an empty string."""
    command = [str(BUILD / "tools/coherdma"), "fault", "--here", "--fail-each"]
    command += ["--limit", str(LIMIT), "--json", "--output", str(report)]
    if errors:
        command += ["--errors", errors]
    command += ["--", str(HERE / "with_peer"), sides.side, sides.ready, sides.server, sides.client]
    output = ""
    for _ in range(TRIES):
        result = subprocess.run(
            command,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            check=False,
        )
        output = result.stderr
        if report.exists() and report.stat().st_size:
            return ""
    return output or "no report"


def try_calls(sides: Sides, errors: str, plugin: str) -> Dict[str, Any]:
    env = {name: value for name, value in os.environ.items() if name != "RDMAV_DRIVERS"}
    if plugin:
        env["RDMAV_DRIVERS"] = plugin
    if sides.package == "perftest":
        env["LD_PRELOAD"] = str(BUILD / "tests/system/lib/libperftest_clock.so")
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        problem = fail_each(sides, errors, env, report)
        if problem:
            return {"problem": problem, "calls": []}
        return {"problem": "", "calls": json.loads(report.read_text(encoding="utf-8"))["calls"]}


def find_problems(name: str, result: Dict[str, Any], known: List[Explanation]) -> List[str]:
    if result["problem"]:
        return str(result["problem"]).splitlines()[-20:]
    return [
        describe(trial)
        for trial in result["calls"]
        if trial["outcome"] in BAD_OUTCOMES and not is_explained(name, trial, known)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("driver", choices=("rxe", "siw"))
    parser.add_argument("--only", default="", metavar="REGEX")
    parser.add_argument("--errors", default="", metavar="LIST")
    parser.add_argument("--ours", action="store_true")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    MAX_TIME_WAIT.write_text("0", encoding="ascii")
    facts, known = device_facts(options.driver), read_explanations()
    os.environ["COHERDMA_PROVIDER"] = str(BUILD / "provider/libcoherdma-rdmav34.so")
    plugin = str(BUILD / "provider/libcoherdma") if options.ours else ""
    chosen = {
        name: sides
        for name, sides in all_sides.items()
        if re.search(options.only, name) and options.driver not in sides.left_out
    }
    table: List[Dict[str, Any]] = []
    num_failed = 0
    print(f"1..{len(chosen)}", flush=True)
    for number, (name, sides) in enumerate(chosen.items(), start=1):
        case = f"{number} - {options.driver}: {name}"
        if not shutil.which(sides.client.split()[0]):
            print(f"ok {case} # SKIP {sides.package} is not installed", flush=True)
            continue
        result = try_calls(sides.fill_in(facts), options.errors, plugin)
        problems = find_problems(name, result, known)
        num_failed += bool(problems)
        print(f"{'not ok' if problems else 'ok'} {case}", flush=True)
        for line in problems:
            print(f"# {line}", flush=True)
        table.append({"name": name, "package": sides.package, "calls": result["calls"]})
        if options.json:  # after each program: what was found is kept if a later one is ended
            document = {
                "driver": options.driver,
                "provider": "coherdma" if options.ours else "rdma-core",
                "errors": options.errors,
                "packages": {row["package"]: package_version(row["package"]) for row in table},
                "programs": table,
            }
            Path(options.json).write_text(json.dumps(document, indent=1), encoding="utf-8")
    return 1 if num_failed else 0


if __name__ == "__main__":
    sys.exit(main())
