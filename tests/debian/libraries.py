#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""libraries.py SUITE [ARCH]: prints a folder with the libibverbs of a Debian suite and its dependencies.

These include the C library and its loader. They are unpacked into softrdma's cache folder, not
installed. Status 77: not possible here; prints the reason.
"""

import glob
import os
import sys

from emulator import unpack_files  # which also makes the lab importable
from lab.core import cache
from lab.core.versions import natural_key
from lab.debian import packages
from lab.core.errors import LabError, Unavailable

PACKAGES = ["libibverbs1", "libnl-3-200", "libnl-route-3-200", "libc6"]


def get(name: str, arch: str) -> str:
    suite = packages.Suite(name, arch)
    try:
        suite.update_lists()
        libibverbs = suite.find_package(PACKAGES[0])
        if not libibverbs:
            raise Unavailable(f"{name} has no {PACKAGES[0]} for {suite.arch}")
        files = [(package, "./usr/lib/*/l[di]*.so*") for package in PACKAGES]
        folder = unpack_files(f"{PACKAGES[0]}-{libibverbs.version}", suite, files)
    except Unavailable:  # without a network: a cached version
        folders = glob.glob(cache.cache_path("emulators", f"{PACKAGES[0]}-*-{name}-{suite.arch}"))
        folders = [path for path in folders if not cache.find_damage(path)]
        if not folders:
            raise
        folder = max(folders, key=natural_key)
    return os.path.dirname(glob.glob(f"{folder}/usr/lib/*/libibverbs.so.1")[0])


if __name__ == "__main__":
    try:
        print(get(sys.argv[1], sys.argv[2] if sys.argv[2:] else packages.machine_arch()))
    except LabError as problem:
        print(problem)
        sys.exit(problem.status)
