# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The kernel source that is built by default, so that a cached kernel serves until a commit changes it.

The file pinned_kernel names it. It comes from the mirror, or from snapshot.debian.org if the mirror
no longer has it; its SHA-256 is compared, so neither has to be trusted.
"""

import os
import re
from typing import Any, Dict, NamedTuple

from .. import LAB_DIR
from ..core import cache, progress
from ..core.errors import LabError, Unavailable
from ..debian import packages
from .kernel_patches import upstream_version

PIN_FILE = os.path.join(LAB_DIR, "kernel", "pinned_kernel")
SNAPSHOT_VARIABLE = "SOFTRDMA_SNAPSHOT"
# HTTP, which needs no certificates: a container of Debian has none.
SNAPSHOT = "http://snapshot.debian.org"
SOURCE_PREFIX = "linux-source-"
CACHE_KIND = "sources"


class Pin(NamedTuple):
    package: str
    version: str
    file_name: str  # relative to the mirror
    size: int
    sha256: str
    sha1: str  # the name of the file in a snapshot
    provenance: str  # which signed list of Debian had it

    @property
    def series(self) -> str:
        return self.package.removeprefix(SOURCE_PREFIX)

    def is_version(self, version: str, is_packaged: bool) -> bool:
        """Whether a kernel of the version is the pinned one. A package's has no revision of Debian."""
        return version == self.version or (
            is_packaged and version == upstream_version(self.version)
        )


def read_pin() -> Pin:
    with open(PIN_FILE, encoding="ascii") as file:
        fields = dict(re.findall(r"^([A-Za-z0-9-]+): (.*)$", file.read(), re.MULTILINE))
    try:
        return Pin(
            package=fields["Package"],
            version=fields["Version"],
            file_name=fields["Filename"],
            size=int(fields["Size"]),
            sha256=fields["SHA256"],
            sha1=fields["SHA1"],
            provenance=fields["Provenance"],
        )
    except (KeyError, ValueError) as problem:
        raise LabError(
            f"{PIN_FILE}: {problem} is missing or invalid; install softrdma again"
        ) from problem


def download(pin: Pin, folder: str) -> str:
    """The path of the source package, from the mirror or else from the snapshot."""
    snapshot = os.environ.get(SNAPSHOT_VARIABLE) or SNAPSHOT
    snapshot_uri = f"{snapshot.rstrip('/')}/file/{pin.sha1}"
    path = os.path.join(folder, os.path.basename(pin.file_name))
    try:
        mirror, _ = packages.find_mirrors()
        packages.download_file(f"{mirror.rstrip('/')}/{pin.file_name}", path, pin.size, pin.sha256)
        return path
    except Unavailable as problem:
        mirror_problem = str(problem)
    progress.note(f"{mirror_problem}; trying {snapshot_uri}")
    try:
        packages.download_file(snapshot_uri, path, pin.size, pin.sha256)
        return path
    except Unavailable as problem:
        raise Unavailable(
            f"the pinned kernel source {pin.package} {pin.version} is not available: {mirror_problem}; {problem}; "
            "build the newest one: softrdma kernel build --newest"
        ) from problem


def get_package(pin: Pin) -> str:
    """The path of the source package in softrdma's cache: downloaded, unless it is there."""
    name = os.path.basename(pin.file_name)

    def download_entry(entry: str) -> Dict[str, Any]:
        download(pin, entry)
        return {"version": pin.version}

    entry = cache.get_or_build(
        CACHE_KIND, f"{pin.version}-{pin.sha256[:8]}", download_entry, [name]
    )
    return os.path.join(entry, name)
