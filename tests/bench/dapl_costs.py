#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What posting and reaping costs by uDAPL: ours, OFED's, and verbs alone; in the lab.

softrdma run --driver rxe -- tests/bench/dapl_costs.py [--driver NAME] [--json]

Instructions in user space by callgrind, of each call and by the library that they are in. All of
them are over our plugin. OFED's provider is below the stock libdat2, ours below ours.
$BUILD is the build folder, as for the tests. Exit status 77: something that it needs is missing.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from typing import Any
from collections import Counter
from pathlib import Path

from costs import BUILD, parse_accounts, run

POSTS = BUILD / "tests/bench/dapl_posts"
OURS = BUILD / "udapl/registry/libdat2.so.2", BUILD / "udapl/libdaplcoherdma.so.2"
STACKS = "OFED", "coherdma", "verbs"

# Of each component: how the names of its libraries begin. What is none of them is the program.
COMPONENTS = {
    "registry": ("libdat2",),
    "provider": ("libdapl",),
    "verbs": ("libibverbs", "libcoherdma-rdmav"),
    "C library": ("libc.", "libpthread", "ld-linux"),
}
# What is compared: a kind of work, and how the names of its calls begin.
WORK = {"RDMA write": "write", "send and receive": "send_recv"}


def find_stock_library(library: str) -> str | None:
    """The distribution's."""
    known = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    match = re.search(rf"{re.escape(library)} \(libc6,[^)]*\) => (\S+)", known)
    return match[1] if match else None


def find_component(library: str) -> str:
    name = Path(library).name
    return next(
        (component for component, names in COMPONENTS.items() if name.startswith(names)), "program"
    )


def count_by_component(part: str) -> Counter[str]:
    """The instructions in a part of callgrind's output, each counted for the library that it is in."""
    result: Counter[str] = Counter()
    component, is_call = "program", False
    for line in part.splitlines():
        if line.startswith("ob="):
            component = find_component(line[3:])
        elif line.startswith("calls="):
            is_call = True  # the next line has the cost of the called function
        elif re.match(r"[\d+*-]\S* \d+$", line):
            if not is_call:
                result[component] += int(line.split()[1])
            is_call = False
    total = re.search(r"^totals: (\d+)", part, re.MULTILINE)
    assert total and sum(result.values()) == int(total[1]), "callgrind's output is not understood"
    return result


def count_instructions(stack: str, netdev: str, address: str) -> dict[str, dict[str, float]]:
    """Instructions of one call of each kind, by component. stack: one of STACKS."""
    with tempfile.TemporaryDirectory() as folder:
        registry, provider = map(str, OURS)
        if stack == "OFED":
            registry, provider = find_stock_library("libdat2.so.2") or "", "libdaplofa.so.2"
        # By a folder of its own, so that no other library comes with it.
        Path(folder, "libdat2.so.2").symlink_to(Path(registry).resolve())
        Path(folder, "dat.conf").write_text(
            f'lab u2.0 nonthreadsafe default {provider} dapl.2.0 "{netdev} 0" ""\n',
            encoding="utf-8",
        )
        done = run(
            "coherdma",
            *["env", f"LD_LIBRARY_PATH={folder}", f"DAT_OVERRIDE={folder}/dat.conf"],
            *["valgrind", "--tool=callgrind", "--collect-atstart=no", "--compress-strings=no"],
            f"--callgrind-out-file={folder}/part",
            *[str(POSTS), *(["verbs", address] if stack == "verbs" else ["dat", "lab"])],
        )
        result = {}
        for number, (name, calls) in enumerate(parse_accounts(done.stdout), 1):
            part = Path(f"{folder}/part.{number}").read_text(encoding="utf-8")
            assert f"Client Request: {name}\n" in part
            result[name] = {
                component: instructions / calls
                for component, instructions in count_by_component(part).items()
            }
        return result


def sum_parts(parts: list[dict[str, float]]) -> dict[str, float]:
    """The sum of the calls' instructions, by component and in all."""
    result = {
        component: sum(part.get(component, 0) for part in parts)
        for component in [*COMPONENTS, "program"]
    }
    return result | {"all": sum(result.values())}


def measure(netdev: str, address: str) -> dict[str, Any]:
    """Instructions of each stack, for each call and for each kind of work, with our ratios."""
    all_counts = {stack: count_instructions(stack, netdev, address) for stack in STACKS}
    work = {}
    for name, prefix in WORK.items():
        by_stack = {
            stack: sum_parts([part for call, part in calls.items() if call.startswith(prefix)])
            for stack, calls in all_counts.items()
        }
        work[name] = by_stack | {
            "provider's share, of OFED's": by_stack["coherdma"]["provider"]
            / by_stack["OFED"]["provider"],
            "in all, of verbs alone": by_stack["coherdma"]["all"] / by_stack["verbs"]["all"],
        }
    calls = {
        call: {stack: sum_parts([all_counts[stack][call]]) for stack in STACKS}
        for call in all_counts["coherdma"]
    }
    return {"work": work, "calls": calls}


def print_rows(name: str, rows: dict[str, dict[str, float]]) -> None:
    for stack in STACKS:
        numbers = "".join(f"{number:11.1f}" for number in rows[stack].values())
        print(f"{name:20}{stack:6}{numbers}")
        name = ""


def print_result(result: dict[str, Any]) -> None:
    components = [*COMPONENTS, "program", "all"]
    print(f"{'instructions':26}{''.join(f'{component:>11}' for component in components)}")
    for call, rows in result["calls"].items():
        print_rows(call, rows)
    print("\npost and reap")
    for work, rows in result["work"].items():
        print_rows(work, rows)
        share, whole = rows["provider's share, of OFED's"], rows["in all, of verbs alone"]
        print(f"{'':20}provider's share: {share:.2f} of OFED's; in all: {whole:.2f} of verbs alone")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--driver", default="rxe", choices=["rxe", "siw"])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    fact = f"SOFTRDMA_{options.driver.upper()}_"
    address, netdev = os.environ.get(f"{fact}ADDRESS"), os.environ.get(f"{fact}NETDEV")
    needs: dict[str, object] = {
        "a device: run it by softrdma run": address and netdev,
        "valgrind": shutil.which("valgrind"),
    }
    needs |= {str(path): path.exists() for path in (POSTS, *OURS)}
    needs |= {
        f"OFED's {name}": find_stock_library(name) for name in ("libdat2.so.2", "libdaplofa.so.2")
    }
    for need, is_met in needs.items():
        if not is_met:
            print(f"dapl_costs.py: it needs {need}", file=sys.stderr)
            return 77
    assert address and netdev
    result = measure(netdev, address)
    if options.json:
        print(json.dumps(result, indent=2))
    else:
        print_result(result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
