# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""coherdma's packages for a release of Debian, as scripts/package makes them."""

import glob
import os
import re
import tarfile
from typing import List

from lab.core import files, progress, subprocesses
from lab.core.errors import LabError
from lab.debian import packages

from .checksums import SUMS_NAME
from .material import REPOSITORY, Material


CLEANUP_SECONDS = 60  # of scripts/package and mmdebstrap, which remove what they have made


def require_packages(material: Material, folder: str, suite: str) -> str:
    """The folder with the packages of this commit for the release. They are made if they are not there."""
    made = os.path.join(folder, f"{suite}-{packages.machine_arch()}")
    if commit_of(made) != material.commit:
        make_packages(made, ["deb", "--suite", suite])
        require_commit(made, commit_of(made), material)
    verify_sums(made)
    return made


def make_packages(made: str, arguments: List[str]) -> None:
    """By scripts/package, which makes the folder."""
    progress.note(f"{made} has no packages of this commit; making them takes half an hour")
    subprocesses.run_long(
        [os.path.join(REPOSITORY, "scripts", "package"), *arguments]
        + ["--out", os.path.dirname(made)],
        f"{made} cannot be made",
        show_output=True,
        cleanup_seconds=CLEANUP_SECONDS,
    )


def require_commit(made: str, commit: str, material: Material) -> None:
    """Raise if scripts/package has made the packages of another commit than the release is of."""
    if commit != material.commit:
        raise LabError(
            f"{made} has packages of another commit, and the release is of {material.commit}: a commit was made or "
            "checked out meanwhile; start again"
        )


def commit_of(folder: str) -> str:
    """The commit of the packages, which git wrote into the source archive; empty: there are none."""
    archives = glob.glob(os.path.join(glob.escape(folder), "*.orig.tar.gz"))
    if len(archives) != 1:
        return ""
    try:
        with tarfile.open(archives[0]) as tar:
            return (tar.pax_headers or {}).get("comment", "")
    except (OSError, tarfile.TarError):
        return ""


def verify_sums(folder: str) -> None:
    """Raise unless the folder has the files of its SHA256SUMS, unchanged, and none but those and the log."""
    try:
        with open(os.path.join(folder, SUMS_NAME), encoding="utf-8") as file:
            lines = re.findall(r"^([0-9a-f]{64})  (.+)$", file.read(), re.MULTILINE)
    except FileNotFoundError:
        lines = []
    sums = {name: digest for digest, name in lines}
    for name in sorted({*sums, *os.listdir(folder)} - {SUMS_NAME, "log"}):
        path = os.path.join(folder, name)
        if not os.path.isfile(path) or files.hash_file(path) != sums.get(name):
            raise LabError(f"{path} is not as in {SUMS_NAME}; remove {folder}, to make it again")
