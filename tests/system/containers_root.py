#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""containers_root.py SUITE: the path of another Debian release's root, as `softrdma run --suite` has it.

It is what a container of that release runs in. Status 77: it cannot be had here, and why.
"""

import os
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "scripts"))
sys.dont_write_bytecode = True

from lab import packages, roots  # noqa: E402
from lab.errors import LabError  # noqa: E402

if __name__ == "__main__":
    try:
        print(roots.get(packages.machine_arch(), sys.argv[1]))
    except LabError as problem:
        print(problem)
        sys.exit(problem.status)
