# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The rpms, as scripts/package makes them with this machine's compiler and libraries."""

import glob
import os
import shutil

from lab.core import subprocesses
from lab.core.errors import LabError, UsageError

from . import deb_packages
from .checksums import SUMS_NAME
from .material import Material

FOLDER = "rpm"  # of scripts/package, too
ENDING = ".rpm"


def make_rpms(material: Material, work: str, folder: str) -> str:
    """A folder with the rpms of this commit, and their SHA256SUMS."""
    made = os.path.join(folder, FOLDER)
    if commit_of(made) != material.commit:
        deb_packages.make_packages(made, ["rpm"])
        deb_packages.require_commit(made, commit_of(made), material)
    deb_packages.verify_sums(made)
    root = os.path.join(work, FOLDER)
    os.mkdir(root)
    for name in sorted(os.listdir(made)):
        if is_published(name):
            shutil.copy(os.path.join(made, name), root)
    return root


def is_published(name: str) -> bool:
    return name == SUMS_NAME or name.endswith(ENDING)


def commit_of(folder: str) -> str:
    """The commit of the rpms, which scripts/package has written into the source rpm; empty: there are none."""
    sources = glob.glob(os.path.join(glob.escape(folder), "*.src" + ENDING))
    if len(sources) != 1:
        return ""
    query = ["rpm", "--query", "--nosignature", "--queryformat", "%{VCS}", "--package", sources[0]]
    try:
        return subprocesses.capture_output(query).removeprefix("git:")
    except LabError:
        return ""


def check_options(out: str) -> None:
    """Before anything is made, which takes long."""
    target = os.path.join(out, FOLDER)
    if os.path.lexists(target) and not is_own_folder(target):
        raise UsageError(
            f"{target} is there and has other files than rpms; move it away, or choose another folder by --out"
        )
    subprocesses.require_programs({"rpmbuild": "rpm"}, "the rpms")


def is_own_folder(path: str) -> bool:
    """Whether it has rpms, and nothing else."""
    is_folder = os.path.isdir(path) and not os.path.islink(path)
    return is_folder and all(map(is_published, os.listdir(path)))
