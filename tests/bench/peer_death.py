#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Whether the flushes after a peer's death take a time that grows linearly with their number.

softrdma run --driver both -- tests/bench/peer_death.py [--driver NAME...] [--qps N...] [--json]
      [--providers NAME...] [--polls during|after|never] [--rounds N]

For each driver and provider: nanoseconds per flush until the last is polled, those in polls, and
nanoseconds to destroy a QP, by the number of QPs; medians of the rounds. The ratio is that of the
last number to the one before it. These are times: other work of the machine changes them. What is
done is in peer_death.cpp. $BUILD is the build folder.

Exit status 77: something that it needs is missing; 1: with our provider flushes were missing,
repeated or out of order.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
from typing import Any

from costs import BUILD, PROVIDERS

PROGRAM = BUILD / "tests/bench/peer_death"
TIMES = ("ns_per_flush", "poll_ns_per_flush", "destroy_ns_per_qp")
MAX_ATTEMPTS = 3
TIMEOUT_S = 300  # only ends a hang


def run_once(provider: str, address: str, num_qps: int, polls: str) -> dict[str, Any]:
    """One measurement, or {"error": TEXT}. A busy machine may fail to connect: it is repeated."""
    environment = {k: v for k, v in os.environ.items() if k != "RDMAV_DRIVERS"}
    if PROVIDERS[provider]:
        environment["RDMAV_DRIVERS"] = str(PROVIDERS[provider])
    error = ""
    for _ in range(MAX_ATTEMPTS):
        try:
            done = subprocess.run(
                [str(PROGRAM), address, str(num_qps), polls],
                env=environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=TIMEOUT_S,
            )
        except subprocess.TimeoutExpired:
            return {"error": f"not done after {TIMEOUT_S} s"}
        if done.stdout:
            return dict(json.loads(done.stdout))
        error = (done.stderr.splitlines() or [f"exit status {done.returncode}"])[0]
    return {"error": error}


def measure(
    provider: str, address: str, num_qps: int, polls: str, num_rounds: int
) -> dict[str, Any]:
    """The medians of the rounds; faults are those of all rounds."""
    rounds = [run_once(provider, address, num_qps, polls) for _ in range(num_rounds)]
    row: dict[str, Any] = {"provider": provider, "qps": num_qps, "polls": polls}
    row["errors"] = [each["error"] for each in rounds if "error" in each]
    rounds = [each for each in rounds if "error" not in each]
    if not rounds:
        return row
    for key in ("flushes", "missing", "wrong"):
        row[key] = sum(each[key] for each in rounds)
    for key in TIMES:
        row[key] = statistics.median(each[key] for each in rounds)
    return row


def add_ratio(rows: list[dict[str, Any]]) -> None:
    """To the last row, of the most QPs: its times divided by those of the row before it."""
    if len(rows) < 2 or any(key not in row or not row[key] for row in rows[-2:] for key in TIMES):
        return
    rows[-1]["ratio"] = {key: rows[-1][key] / rows[-2][key] for key in TIMES}


def print_row(row: dict[str, Any]) -> None:
    print(f"{row['driver']:4}{row['provider']:9}{row['qps']:6} QPs ", end="")
    if "flushes" not in row:
        print(row["errors"][-1])
        return
    print(
        f"{row['flushes']:8} flushed {row['missing']:7} missing {row['wrong']:3} wrong ",
        end="",
    )
    print(" ".join(f"{row[key]:9.0f}" for key in TIMES), end="")
    if "ratio" in row:
        print("  ratio", " ".join(f"{row['ratio'][key]:.2f}" for key in TIMES), end="")
    print(f"  {len(row['errors'])} rounds failed" if row["errors"] else "", flush=True)


def allow_resources() -> None:
    """The most files and locked memory that this process may have."""
    for limit in (resource.RLIMIT_NOFILE, resource.RLIMIT_MEMLOCK):
        hard = resource.getrlimit(limit)[1]
        resource.setrlimit(limit, (hard, hard))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--driver", nargs="+", default=["rxe", "siw"], choices=["rxe", "siw"])
    parser.add_argument(
        "--providers",
        nargs="+",
        default=["stock", "coherdma"],
        choices=["stock", "coherdma"],
    )
    parser.add_argument("--qps", nargs="+", type=int, default=[250, 1000, 5000])
    parser.add_argument("--polls", default="during", choices=["during", "after", "never"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    needs: dict[str, object] = {
        f"a device of {driver}: run it by softrdma run": os.environ.get(
            f"SOFTRDMA_{driver.upper()}_ADDRESS"
        )
        for driver in options.driver
    }
    needs[str(PROGRAM)] = PROGRAM.exists()
    for need, is_met in needs.items():
        if not is_met:
            print(f"peer_death.py: it needs {need}", file=sys.stderr)
            return 77
    allow_resources()
    result: list[dict[str, Any]] = []
    if not options.json:
        print(" " * 62, " ".join(TIMES))
    for driver in options.driver:
        address = os.environ[f"SOFTRDMA_{driver.upper()}_ADDRESS"]
        for provider in options.providers:
            rows: list[dict[str, Any]] = []
            for num_qps in options.qps:
                row = measure(provider, address, num_qps, options.polls, options.rounds)
                rows.append({"driver": driver} | row)
                if num_qps == options.qps[-1]:
                    add_ratio(rows)
                if not options.json:
                    print_row(rows[-1])
            result += rows
    if options.json:
        print(json.dumps(result, indent=2))
    results_of_coherdma = [row for row in result if row["provider"] == "coherdma"]
    is_right = all(row.get("missing") == row.get("wrong") == 0 for row in results_of_coherdma)
    return 0 if is_right or options.polls == "never" else 1


if __name__ == "__main__":
    sys.exit(main())
