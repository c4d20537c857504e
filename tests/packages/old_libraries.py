#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""old_libraries.py ARCH FOLDER: downloads the packages of Debian 12 that ours replace: OFED's uDAPL, and librpma."""

import os
import sys

PACKAGES_FOLDER = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(PACKAGES_FOLDER, "..", "..", "scripts"))
sys.dont_write_bytecode = True

from lab.debian import packages  # noqa: E402
from lab.core.errors import LabError  # noqa: E402

NAMES = ("libdapl2", "dapl2-utils", "librpma0", "librpma-dev")

if __name__ == "__main__":
    arch, folder = sys.argv[1:]
    try:
        suite = packages.Suite("bookworm", arch)
        suite.update_lists()
        suite.download([p for p in map(suite.find_package, NAMES) if p], folder)
    except LabError as problem:
        print(problem)
        sys.exit(problem.status)
