#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""arm64_root.py: prints a folder with the packages of Debian 12 for a build for arm64, and OFED's programs.

They are unpacked into softrdma's cache folder, not installed. Status 77: not possible here; prints
the reason.
"""

import sys

from emulator import unpack_root  # which also makes the lab importable
from lab.debian import packages
from lab.core.errors import LabError

LIBRARIES = (
    "libibverbs1 librdmacm1 libnl-3-200 libnl-route-3-200 libfmt9 zlib1g"
    " libdw1 libelf1 libbz2-1.0 liblzma5"
)
HEADERS = (
    "libibverbs-dev librdmacm-dev libnl-3-dev libnl-route-3-dev libfmt-dev libcli11-dev"
    " nlohmann-json3-dev zlib1g-dev libdw-dev libelf-dev liblzma-dev"
)

if __name__ == "__main__":
    try:
        names = f"{LIBRARIES} {HEADERS} dapl2-utils".split()
        suite = packages.Suite("bookworm", "arm64")
        print(unpack_root("arm64-root", suite, names, "./*"))
    except LabError as problem:
        print(problem)
        sys.exit(problem.status)
