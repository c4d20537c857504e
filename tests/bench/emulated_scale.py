#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Whether the emulation's cost of a call is the same, however many MRs and Writes there are.

softrdma run --driver both --memory 1024 -- tests/bench/emulated_scale.py [--driver NAME...]
      [--mode NAME...] [--mrs N...] [--writes N...] [--json]

For each driver and mode, and bare: nanoseconds for each call and the peak of memory, by the number of
MRs (each in a page of its own, and many in one) and of outstanding Writes. Beside each value: its
ratio to that of the bare program, and to that of the number before it, which is near 1 if the cost
does not grow. These are times: other work of the machine changes them. What is done is in
emulated_scale.cpp. $BUILD is the build folder, as for the tests. Exit status 77: something that it
needs is missing.

In the user-mode kernel, siw's MRs take a process of the host each while they are emulated.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

BUILD = Path(os.environ.get("BUILD", "build/release")).absolute()
PROGRAM = BUILD / "tests/bench/emulated_scale"
OBSERVERS = BUILD / "provider/libcoherdma-observers"
STEPS = {"pages": 4096, "lines": 128}
TIMEOUT_S = 1200  # only ends a hang


def run_once(mode: str, *arguments: str) -> dict[str, float]:
    environment = {k: v for k, v in os.environ.items() if k != "RDMAV_DRIVERS"}
    if mode != "bare":
        environment |= {"RDMAV_DRIVERS": str(OBSERVERS), "COHERDMA_EMULATE": mode}
    done = subprocess.run(
        [str(PROGRAM), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    if done.returncode != 0:
        sys.exit(f"emulated_scale {' '.join(arguments)}, {mode}: {done.stderr}")
    return dict(json.loads(done.stdout))


def measure(driver: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each mode and what is done: the values by the number of MRs or Writes."""
    device = os.environ[f"SOFTRDMA_{driver.upper()}_DEVICE"]
    address = os.environ[f"SOFTRDMA_{driver.upper()}_ADDRESS"]
    rows = []
    for mode in ("bare", *options.mode):
        for name, step in STEPS.items():
            values = {n: run_once(mode, "register", device, str(n), str(step)) for n in options.mrs}
            rows.append({"driver": driver, "mode": mode, "done": f"MRs, {name}", "values": values})
        values = {n: run_once(mode, "writes", address, str(n)) for n in options.writes}
        rows.append({"driver": driver, "mode": mode, "done": "Writes", "values": values})
    return rows


def print_row(row: dict[str, Any], bare: dict[str, Any]) -> None:
    former: dict[str, float] = {}
    for number, values in row["values"].items():
        print(f"{row['driver']} {row['mode']}: {number} {row['done']}")
        for key, value in values.items():
            text = f"  {key:28}{value:12.0f}"
            if row["mode"] != "bare":
                text += f"  bare x {value / bare['values'][number][key]:.1f}"
            if former:
                text += f"  before x {value / former[key]:.2f}"
            print(text)
        former = values


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--driver", nargs="+", default=["rxe"], choices=["rxe", "siw"])
    parser.add_argument("--mode", nargs="+", default=["stale", "poison"])
    parser.add_argument("--mrs", nargs="+", type=int, default=[1000, 10000])
    parser.add_argument("--writes", nargs="+", type=int, default=[64, 1024])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    needs = {
        "a device: run it by softrdma run": all(
            f"SOFTRDMA_{driver.upper()}_DEVICE" in os.environ for driver in options.driver
        ),
        str(PROGRAM): PROGRAM.exists(),
    }
    for need, is_met in needs.items():
        if not is_met:
            print(f"emulated_scale.py: it needs {need}", file=sys.stderr)
            return 77
    rows = [row for driver in options.driver for row in measure(driver, options)]
    if options.json:
        print(json.dumps(rows, indent=2))
        return 0
    bare = {(row["driver"], row["done"]): row for row in rows if row["mode"] == "bare"}
    for row in rows:
        print_row(row, bare[row["driver"], row["done"]])
    return 0


if __name__ == "__main__":
    sys.exit(main())
