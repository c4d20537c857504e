#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""libraries.py SUITE [ARCH]: a folder with the libibverbs of a Debian suite and what it needs.

The C library and its loader are among it. They are unpacked into softrdma's cache folder, not
installed. Status 77: they cannot be had here, and why.
"""

import glob
import os
import sys

from emulator import unpacked  # and it makes the lab's rooms known
from lab import cache, packages
from lab.errors import CannotHere, LabError

NEEDED = ["libibverbs1", "libnl-3-200", "libnl-route-3-200", "libc6"]


def get(name: str, arch: str) -> str:
    suite = packages.Suite(name, arch)
    try:
        suite.refresh()
        found = suite.show(NEEDED[0])
        if not found:
            raise CannotHere(f"{name} has no {NEEDED[0]} for {suite.arch}")
        wanted = [(package, "./usr/lib/*/l[di]*.so*") for package in NEEDED]
        folder = unpacked(f"{NEEDED[0]}-{found.version}", suite, wanted)
    except CannotHere:  # without a network: one of an earlier day
        kept = glob.glob(cache.folder("emulators", f"{NEEDED[0]}-*-{name}-{suite.arch}"))
        kept = [path for path in kept if not cache.damage(path)]
        if not kept:
            raise
        folder = max(kept, key=packages.natural)
    return os.path.dirname(glob.glob(f"{folder}/usr/lib/*/libibverbs.so.1")[0])


if __name__ == "__main__":
    try:
        print(get(sys.argv[1], sys.argv[2] if sys.argv[2:] else packages.machine_arch()))
    except LabError as problem:
        print(problem)
        sys.exit(problem.status)
