#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What an observer that only counts costs perftest's programs, beside the bare ones, in the lab.

softrdma run --driver rxe -- tests/bench/observed.py [--driver NAME] [--pairs N] [--json]

Runs ib_write_lat and ib_write_bw bare and observed by turns, over the provider that is loaded; which
is first alternates. Prints the medians, and that of the ratios of each pair: in bandwidth, bare by
observed, so that more than 1 is a cost in both. $BUILD is the build folder, as for the tests. Exit
status 77: something that it needs is missing.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

BUILD = Path(os.environ.get("BUILD", "build/release")).absolute()
ROOT = Path(__file__).resolve().parents[2]
OBSERVER = BUILD / "tests/system/interposer/libcount.so"
OBSERVED = {
    "LD_PRELOAD": str(BUILD / "provider/libcoherdma-interposer.so"),
    "COHERDMA_OBSERVERS": str(OBSERVER),
    "COUNT_ONLY": "1",
}
# Program, options, column of its last row, and whether more is better.
RUNS = (
    ("ib_write_lat", ["-n", "20000", "-s", "8"], 4, False),  # t_typical, in us
    ("ib_write_bw", ["-n", "20000", "-s", "65536"], 3, True),  # BW average, in MB/s
)
PORT = 18515


def run_once(program: str, options: list[str], device: str, address: str, observed: bool) -> str:
    """Runs server and client; returns the client's last line of numbers."""
    environment = {**os.environ, **(OBSERVED if observed else {})}
    command = [program, "-R", "-F", "-d", device, *options]
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as server:
        try:
            while subprocess.run([ROOT / "tests/system/lib/is_listening", str(PORT)]).returncode:
                if server.poll() is not None:
                    sys.exit(f"{program}: the server has ended with {server.returncode}")
                time.sleep(0.02)
            client = subprocess.run(
                [*command, address], env=environment, capture_output=True, text=True, timeout=120
            )
            if client.returncode == 0:
                server.wait(timeout=120)
        finally:
            server.kill()  # nothing, if it has ended
    if client.returncode != 0 or server.returncode != 0:
        sys.exit(f"{program}: exit status {client.returncode}\n{client.stdout}{client.stderr}")
    rows = [line for line in client.stdout.splitlines() if line.strip()[:1].isdigit()]
    return rows[-1]


def measure(driver: str, num_pairs: int) -> list[dict[str, Any]]:
    address = os.environ[f"SOFTRDMA_{driver.upper()}_ADDRESS"]
    device = os.environ[f"SOFTRDMA_{driver.upper()}_DEVICE"]
    results = []
    for program, options, column, more_is_better in RUNS:
        values: dict[bool, list[float]] = {False: [], True: []}
        for round_index in range(num_pairs):
            for observed in (False, True) if round_index % 2 == 0 else (True, False):
                row = run_once(program, options, device, address, observed)
                values[observed].append(float(row.split()[column]))
        costs = [
            bare / observed if more_is_better else observed / bare
            for bare, observed in zip(values[False], values[True])
        ]
        results.append(
            {
                "program": " ".join([program, *options]),
                "bare": statistics.median(values[False]),
                "observed": statistics.median(values[True]),
                "ratio": statistics.median(costs),
                "quartiles": statistics.quantiles(costs, n=4)[::2],
                "pairs": num_pairs,
            }
        )
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--driver", default="rxe", choices=["rxe", "siw"])
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    needs = {
        "a device: run it by softrdma run": f"SOFTRDMA_{options.driver.upper()}_ADDRESS"
        in os.environ,
        str(OBSERVER): OBSERVER.exists(),
        "two pairs or more": options.pairs >= 2,
    } | {program: shutil.which(program) is not None for program, *_ in RUNS}
    for need, is_met in needs.items():
        if not is_met:
            print(f"observed.py: it needs {need}", file=sys.stderr)
            return 77
    results = measure(options.driver, options.pairs)
    if options.json:
        print(json.dumps(results, indent=2))
    else:
        for r in results:
            low, high = r["quartiles"]
            print(
                f"{options.driver} {r['program']}: bare {r['bare']:.2f}, observed "
                f"{r['observed']:.2f}; ratio {r['ratio']:.3f}, half of {r['pairs']} from "
                f"{low:.3f} to {high:.3f}"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
