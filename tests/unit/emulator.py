#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""emulator.py PROGRAM: the path of an emulator of single programs that is new enough for Zicbom.

The system's own, or one from a later Debian, unpacked into softrdma's cache folder and not
installed; and for guest.py, of a whole machine. Status 77: there is none here, and why.
"""

import glob
import os
import re
import shutil
import subprocess
import sys
from typing import Any, Dict, List, NamedTuple, Tuple

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "scripts"))
sys.dont_write_bytecode = True

from lab import cache, children, keeper, packages  # noqa: E402
from lab.errors import CannotHere, LabError  # noqa: E402

NEW_ENOUGH = 11  # the first that tells programs of Zicbom, in hwprobe
SUITE = "forky"  # has it, linked statically, and a kernel that lets programs use Zicbom
MACHINE = "qemu-system-riscv"  # a package; later than the first that can be told to log midway


class Guest(NamedTuple):
    emulator: str
    firmware: str
    kernel: str


def new_enough(program: str) -> bool:
    version = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
    return any(int(major) >= NEW_ENOUGH for major in re.findall(r"version (\d+)\.", version))


def unpacked(name: str, suite: packages.Suite, wanted: List[Tuple[str, str]]) -> str:
    """A folder of files of packages: of each what matches its pattern."""

    def build(path: str) -> Dict[str, Any]:
        suite.refresh()
        versions = {}
        cache.need_room(300, name)
        with keeper.Undo() as undo:
            for package, pattern in wanted:
                found = suite.show(package)
                if not found:
                    raise CannotHere(f"{suite.name} has no {package} for {suite.arch}")
                debs = suite.download([found], packages.workshop(undo, f"{name}-{package}"))
                script = (
                    'dpkg-deb --fsys-tarfile "$1" |'
                    ' tar -C "$2" -x --no-same-owner --wildcards "$3"'
                )
                command = ["sh", "-c", script, "sh", debs[0], path, pattern]
                children.work(command, f"cannot unpack {package}")
                versions[package] = found.version
        return versions

    return cache.entry("emulators", f"{name}-{suite.name}-{suite.arch}", build, [])


def get(name: str) -> str:
    own = shutil.which(name)
    if own and new_enough(own):
        return own
    suite = packages.Suite(SUITE, packages.machine_arch())
    folder = unpacked(name, suite, [("qemu-user", f"./usr/bin/{name}")])
    return os.path.join(folder, "usr", "bin", name)


def kernel() -> str:
    suite = packages.Suite(SUITE, "riscv64")
    place = cache.folder("emulators", f"kernel-{SUITE}-riscv64")
    if cache.damage(place):  # its name is in the lists alone
        suite.refresh()
        meta = suite.show("linux-image-riscv64")
        names = [name for name in meta.depends if re.match(r"linux-image-\d", name)] if meta else []
        if not names:
            raise CannotHere(f"{SUITE} has no kernel for riscv64")
        package = names[0].replace("image", "binary")
        place = unpacked("kernel", suite, [(package, "./usr/lib/modules/*/vmlinuz")])
    return glob.glob(f"{place}/usr/lib/modules/*/vmlinuz")[0]


def machine() -> str:
    """The folder of an emulator for this release, and its firmware."""
    arch, own = packages.machine_arch(), packages.own_release()
    wanted = [(MACHINE, "./usr/bin/qemu-system-riscv64"), ("opensbi", "*/generic/fw_dynamic.bin")]
    suites = [packages.Suite(name, arch) for name in (own, f"{own}-backports")]
    for suite in suites:  # without a look at lists, if it is there
        if not cache.damage(cache.folder("emulators", f"machine-{suite.name}-{arch}")):
            return unpacked("machine", suite, wanted)
    for suite in suites:
        suite.refresh()
        if suite.show(MACHINE):
            return unpacked("machine", suite, wanted)
    raise CannotHere(f"neither {own} nor its backports have {MACHINE}")


def guest() -> Guest:
    folder = machine()
    program = os.path.join(folder, "usr", "bin", "qemu-system-riscv64")
    missing = subprocess.run(
        [program, "--version"], stdout=subprocess.DEVNULL, stderr=-1, text=True
    )
    if missing.returncode != 0:
        raise CannotHere(f"the machine's emulator does not start here: {missing.stderr.strip()}")
    firmware = glob.glob(f"{folder}/usr/lib/riscv64-linux-gnu/opensbi/generic/fw_dynamic.bin")
    return Guest(program, firmware[0], kernel())


if __name__ == "__main__":
    try:
        print(get(sys.argv[1]))
    except LabError as problem:
        print(problem)
        sys.exit(problem.status)
