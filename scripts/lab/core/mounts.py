# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The mount points below a folder. The device number would not show all: a bind mount may have the same."""

import os
import re
import shlex
from typing import List

from .errors import LabError

MOUNTS = "/proc/self/mountinfo"


def find_mount_points(path: str) -> List[str]:
    """The mount points at and below the path, deepest first."""
    path = os.path.realpath(path)
    try:
        with open(MOUNTS, "rb") as file:
            fields = [line.split(b" ")[4] for line in file]
    except OSError as problem:
        raise LabError(
            f"cannot read {MOUNTS}: {problem.strerror}; mount proc on /proc"
        ) from problem
    points = {_unescape(field) for field in fields}
    return sorted((point for point in points if f"{point}/".startswith(f"{path}/")), reverse=True)


def require_no_mounts(path: str) -> None:
    """Raise if something is mounted at or below the folder: its files are not those of the folder."""
    points = find_mount_points(path)
    if points:
        commands = "; ".join(f"umount {shlex.quote(point)}" for point in points)
        raise LabError(
            f"cannot remove {path}: {points[-1]} is a mount point, and what is mounted there stays; type: {commands}"
        )


def _unescape(field: bytes) -> str:
    """The path: the kernel writes a blank, tab, newline or backslash as an octal number."""
    return os.fsdecode(
        re.sub(rb"\\([0-7]{3})", lambda match: bytes([int(match.group(1), 8)]), field)
    )
