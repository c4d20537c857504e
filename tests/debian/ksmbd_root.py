#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""ksmbd_root.py: prints a folder with the programs of ksmbd-tools, which control the kernel's SMB server.

They are those of Debian 13: the kernel does not accept the messages of Debian 12's. They are unpacked into softrdma's
cache folder, not installed. Status 77: not possible here; prints the reason.
"""

import os
import sys

from emulator import unpack_root  # which also makes the lab importable
from lab.core.errors import LabError
from lab.debian import packages

if __name__ == "__main__":
    try:
        suite = packages.Suite("trixie", packages.machine_arch())
        root = unpack_root("ksmbd", suite, ["ksmbd-tools"], "./usr/*")
        print(os.path.join(root, "usr", "sbin"))
    except LabError as problem:
        print(problem)
        sys.exit(problem.status)
