#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""suite_root.py SUITE: prints a folder with the headers and libraries that libcoherdma is built with.

They are those of another Debian release, unpacked into softrdma's cache folder, not installed.
Status 77: not possible here; prints the reason.
"""

import sys

from emulator import unpack_root  # which also makes the lab importable
from lab.debian import packages
from lab.core.errors import LabError

LIBRARIES = "libibverbs1 librdmacm1t64 libnl-3-200 libnl-route-3-200 zlib1g libdw1t64 libelf1t64"
HEADERS = (
    "libibverbs-dev librdmacm-dev libnl-3-dev libnl-route-3-dev zlib1g-dev libdw-dev libelf-dev"
    " liblzma-dev libzstd-dev"
)

if __name__ == "__main__":
    try:
        names = f"{LIBRARIES} {HEADERS}".split()
        suite = packages.Suite(sys.argv[1], packages.machine_arch())
        print(unpack_root("build-root", suite, names, "./usr/*"))
    except LabError as problem:
        print(problem)
        sys.exit(problem.status)
