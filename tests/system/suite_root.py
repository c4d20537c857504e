#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""suite_root.py SUITE: a folder with what libcoherdma is built of in another Debian release.

Its headers and libraries are unpacked into softrdma's cache folder, not installed. Status 77: they
cannot be had here, and why.
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "unit"))

from emulator import unpacked  # noqa: E402 and it makes the lab's rooms known
from lab import packages  # noqa: E402
from lab.errors import LabError  # noqa: E402

LIBRARIES = "libibverbs1 librdmacm1t64 libnl-3-200 libnl-route-3-200 zlib1g"
HEADERS = "libibverbs-dev librdmacm-dev libnl-3-dev libnl-route-3-dev zlib1g-dev"

if __name__ == "__main__":
    try:
        wanted = [(each, "./usr/*") for each in f"{LIBRARIES} {HEADERS}".split()]
        print(unpacked("build-root", packages.Suite(sys.argv[1], packages.machine_arch()), wanted))
    except LabError as problem:
        print(problem)
        sys.exit(problem.status)
