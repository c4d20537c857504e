#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""arm64_root.py: a folder with what a build for arm64 needs of Debian 12, and OFED's programs of uDAPL.

They are unpacked into softrdma's cache folder, not installed. Status 77: they cannot be had here,
and why.
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "unit"))

from emulator import unpacked  # noqa: E402 and it makes the lab's rooms known
from lab import packages  # noqa: E402
from lab.errors import LabError  # noqa: E402

LIBRARIES = "libibverbs1 librdmacm1 libnl-3-200 libnl-route-3-200 libfmt9 zlib1g"
HEADERS = (
    "libibverbs-dev librdmacm-dev libnl-3-dev libnl-route-3-dev libfmt-dev libcli11-dev"
    " nlohmann-json3-dev zlib1g-dev"
)

if __name__ == "__main__":
    try:
        wanted = [(each, "./*") for each in f"{LIBRARIES} {HEADERS} dapl2-utils".split()]
        print(unpacked("arm64-root", packages.Suite("bookworm", "arm64"), wanted))
    except LabError as problem:
        print(problem)
        sys.exit(problem.status)
