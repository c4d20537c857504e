# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""SHA256SUMS: the files of one release in a folder, also if they were made one after the other."""

import contextlib
import ctypes
import os
import re
from typing import Callable, Dict, Iterator, List

from lab.core import files, locks, progress, supervisor
from lab.core.errors import UsageError

SUMS_NAME = "SHA256SUMS"
AT_FDCWD, RENAME_EXCHANGE = -100, 2


@contextlib.contextmanager
def _lock(out: str) -> Iterator[None]:
    """Lock the folder, as flock(1) does; waits for another program that has it locked."""
    fd = os.open(out, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    with locks.hold(fd):
        if not locks.try_lock(fd, out):
            with progress.Step(f"waiting for a program that has locked {out}"):
                locks.lock(fd, out)
        yield


def publish(
    made: List[str], bill: str, work: str, out: str, prepare: Callable[[], None] = lambda: None
) -> None:
    """Move what was made and the bill of materials to the folder out, with SHA256SUMS of the files.

    If the folder has the same bill, whose bytes depend on the commit, the kernel and its libraries,
    SHA256SUMS keeps the files that it has listed and that are still what it says. If the process is
    killed meanwhile, there is no SHA256SUMS, or it is right.

    prepare: called when no other scripts/release can change the folder.
    """
    sums = {
        os.path.basename(path): files.hash_file(path)
        for path in [*made, bill]
        if os.path.isfile(path)
    }
    with _lock(out):
        prepare()
        _publish(sums, made, bill, work, out)


def _publish(sums: Dict[str, str], made: List[str], bill: str, work: str, out: str) -> None:
    bill_name = os.path.basename(bill)
    old_bill = os.path.join(out, bill_name)
    listed = _read_sums(out)
    if os.path.isfile(old_bill) and files.hash_file(old_bill) == sums[bill_name]:
        sums = {**listed, **sums}
    stale = sorted(listed.keys() - sums.keys())
    if stale:
        progress.note(
            f"{progress.abbreviate_home(out)} still has {' and '.join(stale)}, of another commit or kernel; "
            f"{SUMS_NAME} does not list them any more"
        )
    old_sums = os.path.join(out, SUMS_NAME)
    sums_file = os.path.join(work, SUMS_NAME)
    with open(sums_file, "w", encoding="ascii") as file:
        for name, sha256 in sorted(sums.items()):
            file.write(f"{sha256}  {name}\n")
    moved = [*made, bill, sums_file]
    for path in moved:
        if os.path.isfile(path):
            refuse_folder(os.path.join(out, os.path.basename(path)))
    with supervisor.defer_signals():
        if os.path.lexists(old_sums):
            os.unlink(old_sums)
        for path in moved:
            _replace(os.path.join(out, os.path.basename(path)), path)


def _replace(target: str, path: str) -> None:
    """Move the file or folder. A folder that is replaced is then in the work folder.

    One of the folders is there at each moment, if the file system can exchange them.
    """
    if not (os.path.isdir(path) and os.path.isdir(target)):
        os.replace(path, target)
    elif not _exchange(path, target):
        os.rename(target, path + ".replaced")
        os.rename(path, target)


def _exchange(path: str, target: str) -> bool:
    """Returns whether it could be done."""
    renameat2 = ctypes.CDLL(None).renameat2
    old, new = os.fsencode(path), os.fsencode(target)
    return bool(renameat2(AT_FDCWD, old, AT_FDCWD, new, RENAME_EXCHANGE) == 0)


def refuse_folder(path: str) -> None:
    if os.path.isdir(path):
        raise UsageError(
            f"{path} is a folder, not a file of a release; choose another folder with --out"
        )


def _read_sums(folder: str) -> Dict[str, str]:
    """Those of SHA256SUMS that are right."""
    try:
        with open(os.path.join(folder, SUMS_NAME), encoding="ascii") as file:
            lines = re.findall(r"^([0-9a-f]{64})  ([^/\n]+)$", file.read(), re.MULTILINE)
    except (OSError, UnicodeDecodeError):
        return {}
    paths = {name: os.path.join(folder, name) for _, name in lines}
    return {
        name: sha256
        for sha256, name in lines
        if os.path.isfile(paths[name]) and files.hash_file(paths[name]) == sha256
    }
