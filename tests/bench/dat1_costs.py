#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What DAT 1.2's face costs above 2.0's; in the lab, where a soft device is.

softrdma run --driver rxe -- tests/bench/dat1_costs.py [--driver NAME] [--json]

Instructions of the provider itself by callgrind, for a call with one segment by each of its two
tables. $BUILD is the build folder, as for the tests. Exit status 77: something that it needs is
missing.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

from costs import BUILD, parse_accounts, run
from dapl_costs import count_by_component

POSTS = BUILD / "tests/bench/dat1_posts"
PROVIDER = BUILD / "udapl/libdaplcoherdma.so.2"


def measure(netdev: str) -> dict[str, dict[str, float]]:
    """By call: by each version, and the difference."""
    with tempfile.TemporaryDirectory() as folder:
        done = run(
            "coherdma",
            *["valgrind", "--tool=callgrind", "--collect-atstart=no", "--compress-strings=no"],
            f"--callgrind-out-file={folder}/part",
            *[str(POSTS), str(PROVIDER), f"{netdev} 0"],
        )
        result: dict[str, dict[str, float]] = {}
        for number, (name, calls) in enumerate(parse_accounts(done.stdout), 1):
            part = Path(f"{folder}/part.{number}").read_text(encoding="utf-8")
            assert f"Client Request: {name}\n" in part
            version, _, call = name.partition(" ")
            result.setdefault(call, {})[version] = count_by_component(part)["provider"] / calls
    for counts in result.values():
        counts["more"] = counts["1.2"] - counts["2.0"]
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--driver", default="rxe", choices=["rxe", "siw"])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    netdev = os.environ.get(f"SOFTRDMA_{options.driver.upper()}_NETDEV")
    needs: dict[str, object] = {
        "a device: run it by softrdma run": netdev,
        "valgrind": shutil.which("valgrind"),
    }
    needs |= {str(path): path.exists() for path in (POSTS, PROVIDER)}
    for need, is_met in needs.items():
        if not is_met:
            print(f"dat1_costs.py: it needs {need}", file=sys.stderr)
            return 77
    assert netdev
    result = measure(netdev)
    if options.json:
        print(json.dumps(result, indent=2))
        return 0
    print(f"{'instructions':16}{'2.0':>8}{'1.2':>8}{'more':>8}")
    for call, counts in result.items():
        print(f"{call:16}" + "".join(f"{counts[column]:8.1f}" for column in ("2.0", "1.2", "more")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
