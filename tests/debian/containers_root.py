#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""containers_root.py SUITE LINK: links to the root file system of a Debian release, as in `softrdma run --suite`.

Containers use it. Status 77: not possible here; prints the reason.
"""

import os
import sys

DEBIAN_FOLDER = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(DEBIAN_FOLDER, "..", "..", "scripts"))
sys.dont_write_bytecode = True

from lab.debian import packages, rootfs  # noqa: E402
from lab.core.errors import LabError  # noqa: E402

if __name__ == "__main__":
    try:
        suite, link = sys.argv[1:]
        root = rootfs.get_rootfs(packages.machine_arch(), suite)
        if os.path.lexists(link):
            os.unlink(link)
        os.symlink(root, link)
    except LabError as problem:
        print(problem)
        sys.exit(problem.status)
