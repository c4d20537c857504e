#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""emulator.py PROGRAM: prints the path of a user-mode emulator that supports Zicbom.

It is the system's, or that of a later Debian, unpacked into softrdma's cache folder and not installed.
guest.py imports guest(), which gets an emulator of a machine. Status 77: not possible here; prints
the reason.
"""

import glob
import os
import re
import shutil
import subprocess
import sys
import zlib
from typing import Any, Dict, List, NamedTuple, Tuple

DEBIAN_FOLDER = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(DEBIAN_FOLDER, "..", "..", "scripts"))
sys.dont_write_bytecode = True

from lab.core import cache, subprocesses, supervisor  # noqa: E402
from lab.core.temporary_folders import make_work_folder  # noqa: E402
from lab.debian import packages  # noqa: E402
from lab.core.errors import LabError, Unavailable  # noqa: E402

MIN_QEMU_VERSION = 11  # the first that reports Zicbom by hwprobe
SUITE = "forky"  # has this version, statically linked, and a kernel that permits Zicbom
MACHINE_PACKAGE = "qemu-system-riscv"


class Guest(NamedTuple):
    emulator: str
    firmware: str
    kernel: str


def supports_zicbom(program: str) -> bool:
    version = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
    return any(int(major) >= MIN_QEMU_VERSION for major in re.findall(r"version (\d+)\.", version))


def unpack_files(name: str, suite: packages.Suite, files: List[Tuple[str, str]]) -> str:
    """Unpack files of packages, given as package and pattern, into a cached folder. Returns the folder."""

    def build(path: str) -> Dict[str, Any]:
        suite.update_lists()
        versions = {}
        cache.require_space(300, name)
        with supervisor.Undo() as undo:
            for package_name, pattern in files:
                package = suite.find_package(package_name)
                if not package:
                    raise Unavailable(f"{suite.name} has no {package_name} for {suite.arch}")
                debs = suite.download([package], make_work_folder(undo, f"{name}-{package_name}"))
                script = (
                    'dpkg-deb --fsys-tarfile "$1" |'
                    ' tar -C "$2" -x --no-same-owner --wildcards "$3"'
                )
                command = ["sh", "-c", script, "sh", debs[0], path, pattern]
                subprocesses.run_long(command, f"cannot unpack {package_name}")
                versions[package_name] = package.version
        return versions

    return cache.get_or_build("emulators", f"{name}-{suite.name}-{suite.arch}", build, [])


def unpack_root(name: str, suite: packages.Suite, names: List[str], pattern: str) -> str:
    """Unpack files of packages into a folder. Its name changes with the list of packages."""
    key = zlib.crc32(" ".join(names).encode())
    return unpack_files(f"{name}-{key:08x}", suite, [(package, pattern) for package in names])


def get(name: str) -> str:
    installed = shutil.which(name)
    if installed and supports_zicbom(installed):
        return installed
    suite = packages.Suite(SUITE, packages.machine_arch())
    folder = unpack_files(name, suite, [("qemu-user", f"./usr/bin/{name}")])
    return os.path.join(folder, "usr", "bin", name)


def kernel() -> str:
    suite = packages.Suite(SUITE, "riscv64")
    folder = cache.cache_path("emulators", f"kernel-{SUITE}-riscv64")
    if cache.find_damage(folder):  # the name of the package is only in the lists
        suite.update_lists()
        meta_package = suite.find_package("linux-image-riscv64")
        depends = meta_package.depends if meta_package else []
        names = [name for name in depends if re.match(r"linux-image-\d", name)]
        if not names:
            raise Unavailable(f"{SUITE} has no kernel for riscv64")
        package = names[0].replace("image", "binary")
        folder = unpack_files("kernel", suite, [(package, "./usr/lib/modules/*/vmlinuz")])
    return glob.glob(f"{folder}/usr/lib/modules/*/vmlinuz")[0]


def machine() -> str:
    """A folder with an emulator of a RISC-V machine, and its firmware."""
    arch, release = packages.machine_arch(), packages.running_release()
    files = [
        (MACHINE_PACKAGE, "./usr/bin/qemu-system-riscv64"),
        ("opensbi", "*/generic/fw_dynamic.bin"),
    ]
    suites = [packages.Suite(name, arch) for name in (release, f"{release}-backports")]
    for suite in suites:  # a cached one needs no package lists
        if not cache.find_damage(cache.cache_path("emulators", f"machine-{suite.name}-{arch}")):
            return unpack_files("machine", suite, files)
    for suite in suites:
        suite.update_lists()
        if suite.find_package(MACHINE_PACKAGE):
            return unpack_files("machine", suite, files)
    raise Unavailable(f"neither {release} nor its backports have {MACHINE_PACKAGE}")


def guest() -> Guest:
    folder = machine()
    program = os.path.join(folder, "usr", "bin", "qemu-system-riscv64")
    result = subprocess.run([program, "--version"], stdout=subprocess.DEVNULL, stderr=-1, text=True)
    if result.returncode != 0:
        raise Unavailable(f"the machine's emulator does not start here: {result.stderr.strip()}")
    firmware = glob.glob(f"{folder}/usr/lib/riscv64-linux-gnu/opensbi/generic/fw_dynamic.bin")
    return Guest(program, firmware[0], kernel())


if __name__ == "__main__":
    try:
        print(get(sys.argv[1]))
    except LabError as problem:
        print(problem)
        sys.exit(problem.status)
