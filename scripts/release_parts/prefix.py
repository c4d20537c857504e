# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The files of softrdma, as they are installed below a prefix such as /usr; and how they are packed."""

import os
import shutil
import stat
import tarfile
from typing import Dict, Iterator

from lab import VERSION
from lab.core.errors import Unavailable

from .material import MIN_PYTHON, SUMMARY, Material

EXECUTABLE, READABLE = 0o755, 0o644
DOC_FOLDER = "/usr/share/doc"
PAGES = ("lab.md", "kernel-users.md", "cluster.md", "transfer-engine-in-ci.md", "rdma-in-ci.md")
COMMON_LICENSES = {  # of base-files
    "LGPL-2.1": "/usr/share/common-licenses/LGPL-2.1",
    "GPL-3": "/usr/share/common-licenses/GPL-3",
}


def make_prefix(material: Material, prefix: str) -> None:
    """The files of softrdma, as they are installed below a prefix such as /usr."""
    share = os.path.join(prefix, "share")
    scripts = os.path.join(material.tree, "scripts")
    bytecode = shutil.ignore_patterns("__pycache__")  # of `kernel build` above
    shutil.copytree(
        os.path.join(scripts, "lab"), os.path.join(share, "softrdma", "lab"), ignore=bytecode
    )
    series = material.pin.series
    shutil.copytree(material.kernel, os.path.join(share, "softrdma", "uml", series), symlinks=True)
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
    for name in ("LICENSE", "CHANGELOG.md"):
        copy(os.path.join(material.tree, name), doc)
    for name in PAGES:
        copy(os.path.join(material.tree, "docs", name), doc)
    examples = os.path.join(material.tree, "examples")
    copy(os.path.join(examples, "transfer_engine.py"), os.path.join(doc, "examples"))
    shutil.copytree(os.path.join(examples, "kernel"), os.path.join(doc, "examples", "kernel"))
    shutil.copytree(os.path.join(material.tree, "docs", "ci"), os.path.join(doc, "ci"))
    licenses = os.path.join(doc, "LICENSES")
    shutil.copytree(os.path.join(material.tree, "LICENSES"), licenses)
    for name, path in licenses_of_libraries(material).items():
        shutil.copyfile(path, os.path.join(licenses, name))
    with open(os.path.join(doc, "README.txt"), "w", encoding="utf-8") as file:
        file.write(readme(material))


def copy(path: str, folder: str) -> None:
    os.makedirs(folder, exist_ok=True)
    shutil.copy(path, folder)


def licenses_of_libraries(material: Material) -> Dict[str, str]:
    """The paths of the licenses of what is linked with the kernel, by the name of the copy."""
    packages = [library["package"] for library in (material.libc, material.libgcc)]
    copyrights = {
        f"{package}.copyright": os.path.join(DOC_FOLDER, package, "copyright")
        for package in packages
    }
    paths = {**COMMON_LICENSES, **copyrights}
    missing = [path for path in paths.values() if not os.path.isfile(path)]
    if missing:
        raise Unavailable(
            f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing, and a release has the licenses "
            f"of the kernel's libraries; type: apt-get install --reinstall base-files {' '.join(packages)}"
        )
    return paths


def readme(material: Material) -> str:
    return f"""\
softrdma {VERSION}: {SUMMARY}.

bin/softrdma runs where this folder is, also read-only, with Python {MIN_PYTHON} or newer and iproute2:

    bin/softrdma run -- ibv_devinfo
    bin/softrdma run --hosts 2 -- COMMAND

The programs that you run are your machine's: ibv_devinfo is in the package ibverbs-utils, or
libibverbs-utils. Manual: share/man/man1/softrdma.1, share/doc/softrdma/lab.md.

Commit {material.commit}. Licenses: LICENSE, and LICENSES below share/doc/softrdma.
share/softrdma/uml has a Linux kernel with patches (share/softrdma/lab/patches), GPL-2.0-only WITH
Linux-syscall-note. Linked with it are the GNU C library, LGPL-2.1-or-later, and libgcc,
GPL-3.0-or-later WITH GCC-exception-3.1. softrdma-{VERSION}-sources.tar of this release has the
sources.
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
