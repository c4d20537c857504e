#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Compares the results of rdma-core's test suite with the stock provider and with ours.

    compare.py DRIVER [--plugin PATH [--mode MODE]] [--json FILE] [--only TEST...]

Runs where a soft device of the driver exists (in `softrdma run`). PATH is what RDMAV_DRIVERS takes;
without it the stock provider runs alone. A test that passes with stock must pass with ours; with a
mode of emulation, a test that passes with ours must pass with ours emulated. One that does not is
run again apart from the others, up to three times, since some have races of their own
(tests/system/KNOWN_FAULTS.md); a crash is not run again. Exit status: 0, 1 a test is worse with
ours, 77 the suite is not installed.
"""

import argparse
import json
import os
import sys
import tempfile
from typing import Any, Dict, List

from suite import SHIPPED, Results, Suite

TRIES = 3
# They cannot pass, and take 15 seconds each to say so.
LEFT_OUT = {
    "tests.test_rdmacm.CMTestCase.test_rdmacm_async_udp_traffic": "iWARP has no datagrams",
    "tests.test_rdmacm.CMTestCase.test_rdmacm_async_traffic_external_qp": "iWARP's connection manager establishes by itself",
}
COLUMNS = ("pass", "fail", "skip")


def status_column(status: str) -> str:
    return status if status in COLUMNS else "fail"


def module_name(test: str) -> str:
    words = test.split(".")
    return next((word for word in words if word.startswith("test_")), words[0])


def make_environment(folder: str, plugin: str, mode: str) -> Dict[str, str]:
    env = {name: value for name, value in os.environ.items() if name != "RDMAV_DRIVERS"}
    env.update(VERBS_LOG_LEVEL="3", VERBS_LOG_FILE=os.path.join(folder, "verbs.log"))
    if plugin:
        env["RDMAV_DRIVERS"] = f"{plugin}:{plugin}-observers"
    env["COHERDMA_EMULATE"] = mode
    env["COHERDMA_EMULATE_LOG"] = os.path.join(folder, "%p.findings")
    return env


def was_served(env: Dict[str, str], device: str) -> bool:
    """Whether our plugin served the device since the last call."""
    path = env["VERBS_LOG_FILE"]
    if not os.path.exists(path):
        return False
    with open(path, encoding="utf-8", errors="replace") as file:
        is_served = f"{device} is served by coherdma" in file.read()
    os.unlink(path)
    return is_served


def was_emulated(env: Dict[str, str]) -> bool:
    """Whether a process with the emulated device has ended."""
    folder = os.path.dirname(env["COHERDMA_EMULATE_LOG"])
    return any(name.endswith(".findings") for name in os.listdir(folder))


def find_worse(before: Results, after: Results) -> List[str]:
    """The tests that pass before and not after."""
    return [
        test
        for test, result in before.items()
        if result["status"] == "pass" and after.get(test, {}).get("status") != "pass"
    ]


def retry_apart(suite: Suite, env: Dict[str, str], before: Results, after: Results) -> None:
    """Runs worse tests again, apart from the others; one that passes is counted as passed, and printed."""
    for count in range(1, TRIES + 1):
        tests = [
            test
            for test in find_worse(before, after)
            if after.get(test, {}).get("status") != "crash"
        ]
        for test, result in (suite.run(env, tests) if tests else {}).items():
            if test in tests and result["status"] == "pass":
                print(f"raced: {test}: {after[test]['why']}; passed apart, attempt {count}")
                after[test] = {**result, "first": after[test]["status"], "attempts": count}


def print_table(sides: Dict[str, Results]) -> None:
    """Passed, failed and skipped of each module; those that skip everything are one row."""
    rows: Dict[str, Dict[str, List[int]]] = {}
    for side, results in sides.items():
        for test, result in results.items():
            row = rows.setdefault(module_name(test), {name: [0, 0, 0] for name in sides})
            row[side][COLUMNS.index(status_column(result["status"]))] += 1
    skipped_modules = [
        name for name, row in rows.items() if not any(sum(counts[:2]) for counts in row.values())
    ]
    total = {side: [sum(row[side][k] for row in rows.values()) for k in range(3)] for side in sides}
    skipping = {
        side: [0, 0, sum(rows[name][side][2] for name in skipped_modules)] for side in sides
    }
    shown = {name: row for name, row in rows.items() if name not in skipped_modules}
    shown |= {f"{len(skipped_modules)} others": skipping, "total": total}
    heads = "".join(f"{side + ' pass/fail/skip':>24}" for side in sides)
    print(f"{'module':<22}{heads}")
    for name, row in shown.items():
        print(f"{name:<22}" + "".join(f"{'/'.join(map(str, row[side])):>24}" for side in sides))


def print_differences(before: Results, after: Results) -> None:
    absent: Dict[str, Any] = {"status": "absent", "why": ""}
    for test in sorted({*before, *after}):
        was, now = before.get(test, absent), after.get(test, absent)
        if was["status"] != now["status"]:
            print(f"{was['status']} -> {now['status']}: {test}: {now['why'] or was['why']}")


def rdma_core_release() -> str:
    with os.popen("dpkg-query -W -f '${Version}' libibverbs1") as line:
        return line.read().strip()


def main() -> int:
    parser = argparse.ArgumentParser(description="rdma-core's own test-suite, stock and ours")
    parser.add_argument("driver", choices=("rxe", "siw"))
    parser.add_argument("--plugin", default="")
    parser.add_argument("--mode", default="off", help="of emulation")
    parser.add_argument("--json")
    parser.add_argument("--only", action="extend", nargs="+", metavar="TEST")
    options = parser.parse_args()
    if options.mode != "off" and not options.plugin:
        parser.error("only our plugin has modes: name it with --plugin")
    if not os.path.isdir(SHIPPED):
        print(f"no {SHIPPED}: python3-pyverbs is not installed, or dpkg leaves documentation out")
        return 77

    def device_fact(fact: str) -> str:
        return os.environ[f"SOFTRDMA_{options.driver.upper()}_{fact}"]

    device = device_fact("DEVICE")
    with tempfile.TemporaryDirectory() as folder:
        left_out = LEFT_OUT if options.driver == "siw" else {}
        suite = Suite(
            folder, device, int(device_fact("GID_INDEX")), device_fact("NETDEV"), left_out
        )
        base = "coherdma" if options.mode != "off" else "stock"
        env = make_environment(folder, options.plugin if base == "coherdma" else "", "off")
        sides = {base: suite.run(env, options.only)}
        wrong_provider = was_served(env, device) != (base == "coherdma")
        not_served = False
        if options.plugin:
            env = make_environment(folder, options.plugin, options.mode)
            after = sides["emulated" if base == "coherdma" else "coherdma"] = suite.run(
                env, options.only
            )
            not_served = not was_served(env, device) or (base == "coherdma") != was_emulated(env)
            retry_apart(suite, env, sides[base], after)
    lost = find_worse(sides[base], after) if options.plugin else []
    passed = sum(result["status"] == "pass" for result in sides[base].values())
    facts = {
        "driver": options.driver,
        "kernel": os.uname().release,
        "rdma_core": rdma_core_release(),
    }
    print(", ".join(facts.values()))
    print_table(sides)
    if options.plugin:
        print_differences(sides[base], after)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"schema": 1, **facts, **sides}, file, indent=1)
    for wrong, words in (
        (wrong_provider, f"the run with {base} was not served by {base}"),
        (not_served, f"coherdma did not serve {device}, or not as it should"),
        (not passed, f"nothing passes with {base}"),
        (lost, f"worse: {' '.join(lost)}"),
    ):
        if wrong:
            print(words)
    return 1 if wrong_provider or not_served or lost or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
