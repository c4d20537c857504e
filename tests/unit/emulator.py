#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""emulator.py PROGRAM: the path of an emulator of single programs that is new enough for Zicbom.

The system's own, or one from a later Debian, unpacked into softrdma's cache folder and not
installed. Status 77: there is none here, and why.
"""

import os
import re
import shutil
import subprocess
import sys
from typing import Any, Dict

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "scripts"))
sys.dont_write_bytecode = True

from lab import cache, children, keeper, packages  # noqa: E402
from lab.errors import CannotHere, LabError  # noqa: E402

NEW_ENOUGH = 11  # the first that tells programs of Zicbom, in hwprobe
SUITE = "forky"  # has it, linked statically


def new_enough(program: str) -> bool:
    version = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
    return any(int(major) >= NEW_ENOUGH for major in re.findall(r"version (\d+)\.", version))


def get(name: str) -> str:
    own = shutil.which(name)
    if own and new_enough(own):
        return own
    arch = packages.machine_arch()

    def build(path: str) -> Dict[str, Any]:
        suite = packages.Suite(SUITE, arch)
        suite.refresh()
        found = suite.show("qemu-user")
        if not found:
            raise CannotHere(f"{SUITE} has no qemu-user for {arch}")
        cache.need_room(300, "an emulator")
        with keeper.Undo() as undo:
            debs = suite.download([found], packages.workshop(undo, "emulator"))
            wanted = f"./usr/bin/{name}"
            script = 'dpkg-deb --fsys-tarfile "$1" | tar -C "$2" -x --no-same-owner "$3"'
            children.work(["sh", "-c", script, "sh", debs[0], path, wanted], "cannot unpack it")
        return {"version": found.version}

    folder = cache.entry("emulators", f"{name}-{SUITE}-{arch}", build, [])
    return os.path.join(folder, "usr", "bin", name)


if __name__ == "__main__":
    try:
        print(get(sys.argv[1]))
    except LabError as problem:
        print(problem)
        sys.exit(problem.status)
