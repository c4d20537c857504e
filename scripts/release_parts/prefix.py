# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The files of softrdma, as they are installed below a prefix such as /usr; and how they are packed."""

import os
import shutil
import stat
import tarfile
from typing import Iterator

from lab import VERSION

from .material import MIN_PYTHON, SUMMARY, Material

EXECUTABLE, READABLE = 0o755, 0o644
LGPL = "/usr/share/common-licenses/LGPL-2.1"


def make_prefix(material: Material, prefix: str) -> None:
    """The files of softrdma, as they are installed below a prefix such as /usr."""
    share = os.path.join(prefix, "share")
    scripts = os.path.join(material.tree, "scripts")
    bytecode = shutil.ignore_patterns("__pycache__")  # of `kernel build` above
    shutil.copytree(
        os.path.join(scripts, "lab"), os.path.join(share, "softrdma", "lab"), ignore=bytecode
    )
    series = material.pin.series
    shutil.copytree(
        material.kernel, os.path.join(prefix, "lib", "softrdma", "uml", series), symlinks=True
    )
    copy(os.path.join(scripts, "softrdma"), os.path.join(prefix, "bin"))
    copy(
        os.path.join(material.tree, "man", "softrdma", "softrdma.1"),
        os.path.join(share, "man", "man1"),
    )
    copy(
        os.path.join(material.tree, "completions", "softrdma"),
        os.path.join(share, "bash-completion", "completions"),
    )
    doc = os.path.join(share, "doc", "softrdma")
    for name in ("LICENSE", "CHANGELOG.md", "docs/lab.md", "docs/rdma-in-ci.md"):
        copy(os.path.join(material.tree, name), doc)
    licenses = os.path.join(doc, "LICENSES")
    shutil.copytree(os.path.join(material.tree, "LICENSES"), licenses)
    copy(LGPL, licenses)
    with open(os.path.join(doc, "README.txt"), "w", encoding="utf-8") as file:
        file.write(readme(material))


def copy(path: str, folder: str) -> None:
    os.makedirs(folder, exist_ok=True)
    shutil.copy(path, folder)


def readme(material: Material) -> str:
    return f"""\
softrdma {VERSION}: {SUMMARY}.

bin/softrdma runs where this folder is, also read-only, with Python {MIN_PYTHON} or newer and iproute2:

    bin/softrdma run -- ibv_devinfo
    bin/softrdma run --hosts 2 -- COMMAND

The programs that you run are your machine's: ibv_devinfo is in the package ibverbs-utils, or
libibverbs-utils. Manual: share/man/man1/softrdma.1, share/doc/softrdma/lab.md.

Commit {material.commit}. Licenses: LICENSE; of lib/softrdma/uml, a Linux kernel with patches
(share/softrdma/lab/patches), GPL-2.0-only, with the C library, LGPL-2.1-or-later. The sources of
all are in softrdma-{VERSION}-sources.tar, which is beside this archive.
"""


def set_first_line(path: str, line: str) -> None:
    with open(path, encoding="utf-8") as file:
        text = file.read()
    with open(path, "w", encoding="utf-8") as file:
        file.write(line + "\n" + text.partition("\n")[2])


def walk(folder: str) -> Iterator[str]:
    """The names of files and folders, relative to the folder, in an order that does not change."""
    for current, folder_names, file_names in os.walk(folder):
        folder_names.sort()
        for name in sorted([*folder_names, *file_names]):
            yield os.path.relpath(os.path.join(current, name), folder)


def mode_of(path: str) -> int:
    info = os.stat(path)
    is_executable = stat.S_ISDIR(info.st_mode) or info.st_mode & stat.S_IXUSR
    return EXECUTABLE if is_executable else READABLE


def write_tar(tar: tarfile.TarFile, folder: str, top: str, seconds: int) -> None:
    """Add the folder's files below top, with owner, mode and date that depend on nothing else."""
    for name in ["", *walk(folder)]:
        path = os.path.join(folder, name)
        member = tar.gettarinfo(path, os.path.join(top, name).rstrip("/"))
        member.uid = member.gid = 0
        member.uname = member.gname = "root"
        member.mtime, member.mode = seconds, mode_of(path)
        if member.isreg():
            with open(path, "rb") as file:
                tar.addfile(member, file)
        else:
            tar.addfile(member)
