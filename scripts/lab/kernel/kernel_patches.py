# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The series of patches for the kernel's source, applied before softrdma builds a kernel or siw.

Without them, tests fail for reasons outside the program under test. patches/VERSION/ has the series
that was made for that kernel version; patches/README.md lists the faults.

- For that version each patch must apply.
- Another version gets the series of its minor version, or of the one before it. A patch that does
  not apply is left out and named in a warning; the manifest of the kernel records it.
"""

import contextlib
import hashlib
import os
import re
import shutil
from typing import Iterable, List, NamedTuple

from .. import LAB_DIR
from ..core import progress, subprocesses
from ..core.errors import LabError
from ..core.versions import natural_key

PATCHES_DIR = os.path.join(LAB_DIR, "patches")
SIW_DIR = "drivers/infiniband/sw/siw"
MISSING_FACT = "missing_patches"  # the manifest's fact: the names of patches that did not apply


class Patch(NamedTuple):
    path: str
    diff: str  # without the message
    changed_files: List[str]  # relative to the kernel's source

    @property
    def name(self) -> str:
        """The subject, without the number: the same in all series."""
        return re.sub(r"^\d+-|\.patch$", "", os.path.basename(self.path))


class PatchSeries(NamedTuple):
    version: str  # the kernel version it was made for
    patches: List[Patch]

    def digest(self) -> str:
        """A cache key: of what is changed, not of the messages."""
        text = "".join(patch.diff for patch in self.patches)
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    def apply(self, tree: str, version: str) -> List[str]:
        """Patch the source tree of the version. Returns the names of the patches left out."""
        git = subprocesses.require_program("git", "git", "patching the kernel's source")
        missing = []
        for patch in self.patches:
            problem = _apply(git, patch, tree)
            if not problem:
                continue
            if version == self.version:
                raise LabError(f"{patch.path} does not apply to kernel {version}: {problem}")
            progress.note(
                f"kernel {version} gets no {os.path.basename(patch.path)}, which was made for "
                f"{self.version} and does not apply: {problem}"
            )
            missing.append(patch.name)
        return missing

    def find_missing(self, tree: str) -> List[str]:
        """The names of the patches that a tree, which is not changed, lacks.

        In a copy of the changed files the patches are taken back, the last one first: what can be taken
        back is in the tree.
        """
        from tempfile import TemporaryDirectory

        git = subprocesses.require_program(
            "git", "git", "looking for patches in the kernel's source"
        )
        missing = []
        with TemporaryDirectory() as folder:
            for name in {name for patch in self.patches for name in patch.changed_files}:
                copy = os.path.join(folder, name)
                os.makedirs(os.path.dirname(copy), exist_ok=True)
                with contextlib.suppress(FileNotFoundError):
                    shutil.copyfile(os.path.join(tree, name), copy)
            for patch in reversed(self.patches):
                if _apply(git, patch, folder, "--reverse"):
                    missing.append(patch.name)
        return missing[::-1]


def upstream_version(package_version: str) -> str:
    """6.1.192 for Debian's version 6.1.192-2."""
    return package_version.partition("-")[0]


def series_for(version: str) -> PatchSeries:
    """The patches for a kernel version, or for a minor version such as 6.1."""
    versions = sorted(os.listdir(PATCHES_DIR), key=natural_key)
    versions = [name for name in versions if os.path.isdir(os.path.join(PATCHES_DIR, name))]
    minor = _minor_key(version)
    earlier = [name for name in versions if _minor_key(name) <= minor]
    folder = earlier[-1] if earlier else versions[0]
    names = sorted(os.listdir(os.path.join(PATCHES_DIR, folder)))
    return PatchSeries(folder, [_read(os.path.join(PATCHES_DIR, folder, name)) for name in names])


def siw_series_for(version: str) -> PatchSeries:
    """Those that change siw only."""
    series = series_for(version)
    patches = [patch for patch in series.patches if _is_below(SIW_DIR, patch.changed_files)]
    return PatchSeries(series.version, patches)


def _minor_key(version: str) -> List[object]:
    return natural_key(".".join(version.split(".")[:2]))


def _is_below(folder: str, files: Iterable[str]) -> bool:
    return all(file.startswith(folder + "/") for file in files)


def _read(path: str) -> Patch:
    with open(path, encoding="utf-8") as file:
        _, start, rest = file.read().partition("\ndiff --git ")
    changed_files = re.findall(r"^\+\+\+ b/(\S+)$", rest, re.MULTILINE)
    return Patch(path, start + rest, changed_files)


def _apply(git: str, patch: Patch, tree: str, *options: str) -> str:
    """Apply the whole patch, or nothing of it. Returns why it does not apply; empty if it does."""
    # Else git takes a tree below a repository for a part of it, and ignores other files.
    environment = dict(os.environ, GIT_CEILING_DIRECTORIES=os.path.dirname(os.path.abspath(tree)))
    try:
        subprocesses.run_long(
            [git, "-C", tree, "apply", *options, patch.path], "git apply", env=environment
        )
    except LabError as problem:
        return str(problem).removeprefix("git apply: ").removeprefix("error: ")
    return ""
