# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Temporary folders: those of a run, in the cache those for what is too large for /tmp, and parts of others.

A folder NAME.RANDOM belongs to the process that has the lock of the file
NAME.RANDOM.lock beside it. It makes the file first and removes it last. If that
lock is free, the process was killed, and the next one of the same user removes
both, unless another user could have put them there.
"""

import contextlib
import os
import re
import stat
from typing import List

from . import cache_folder, locks, supervisor, trust
from .errors import LabError, Unavailable

CACHE_KIND = "work"
LOCK_SUFFIX = ".lock"
LOCK_NAME = re.compile(r"[0-9A-Za-z.+~_-]+\.[0-9a-f]{16}\.lock")
PART_LOCK_NAME = re.compile(r"\.part\.[0-9a-f]{16}\.lock")
RUN_LOCK_NAME = re.compile(supervisor.RUN_NAME + r"\.lock")


def make_work_folder(undo: supervisor.Undo, name: str) -> str:
    """Make a temporary folder in the cache, which other users cannot enter."""
    parent = cache_folder.make_cache_folder(CACHE_KIND)
    path = os.path.join(parent, f"{name}.{os.urandom(8).hex()}")
    _make(undo, path, LOCK_NAME)
    return path


def make_part_folder(undo: supervisor.Undo, parent: str) -> str:
    """Make a temporary folder in the parent, for what is then moved to that. Raises OSError if that fails."""
    path = os.path.join(parent, f".part.{os.urandom(8).hex()}")
    _make(undo, path, PART_LOCK_NAME)
    return path


def make_run_folder(undo: supervisor.Undo) -> str:
    """Make the temporary folder of this run. One that exists is another's, and is not removed."""
    path = supervisor.run_folder()
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        _make(undo, path, RUN_LOCK_NAME)
    except OSError as problem:
        raise Unavailable(
            f"cannot make {path}: {problem.strerror}; set TMPDIR to a writable folder"
        ) from problem
    return path


def make_memory_folder(undo: supervisor.Undo) -> str:
    """Make a temporary folder of this run whose files are in memory. Raises OSError if that fails."""
    path = supervisor.memory_folder()
    _make(undo, path, RUN_LOCK_NAME)
    return path


def live_run_folders() -> List[str]:
    """Those in TMPDIR of the caller's runs that have not ended. Their names have the runs' PIDs."""
    parent = os.path.dirname(supervisor.run_folder())
    try:
        entries = sorted(os.listdir(parent))
    except OSError:
        return []
    paths = {entry: os.path.join(parent, entry.removesuffix(LOCK_SUFFIX)) for entry in entries}
    return [
        path
        for entry, path in paths.items()
        if RUN_LOCK_NAME.fullmatch(entry) and _is_callers(path) and _is_in_use(path)
    ]


def _is_in_use(path: str) -> bool:
    with contextlib.suppress(OSError):
        return locks.is_locked(path + LOCK_SUFFIX) and os.path.isdir(path)
    return False


def remove_run_folders() -> None:
    """Remove the folders of this run. Called by the front process if the worker is killed."""
    for path in (supervisor.run_folder(), supervisor.memory_folder()):
        _remove(path)


def _make(undo: supervisor.Undo, path: str, lock_name: "re.Pattern[str]") -> None:
    """Make a folder, after those of killed processes are removed."""
    _remove_abandoned(os.path.dirname(path), lock_name)
    with cache_folder.safe_umask(), supervisor.defer_signals():
        undo.enter_context(locks.hold(_lock_new_file(path + LOCK_SUFFIX)))
        try:
            os.mkdir(path, 0o700)
        except OSError:
            os.unlink(path + LOCK_SUFFIX)
            raise
        undo.callback(_remove, path)


def _lock_new_file(path: str) -> int:
    """Make the file. Returns its descriptor, which has the lock."""
    while True:
        fd = locks.open_file(path, os.O_CREAT | os.O_EXCL)
        try:
            # Before it is locked, another process can take the file for one of a killed process.
            locks.lock(fd, path)
        except LabError:
            os.close(fd)
            os.unlink(path)
            raise
        if locks.is_current(fd, path):
            return fd
        os.close(fd)


def _remove_abandoned(parent: str, lock_name: "re.Pattern[str]") -> None:
    """Remove the folders of processes that were killed."""
    try:
        trust.require_trusted_place(os.path.join(parent, "any"))
        entries = os.listdir(parent)
    except (LabError, OSError):
        return  # another user could exchange the folders there
    for entry in entries:
        path = os.path.join(parent, entry.removesuffix(LOCK_SUFFIX))
        if lock_name.fullmatch(entry) and _is_callers(path):
            _remove_if_unlocked(path)


def _is_callers(path: str) -> bool:
    """Whether the folder and its lock have the types and the owner of those that the caller makes."""
    with contextlib.suppress(FileNotFoundError):
        lock = os.lstat(path + LOCK_SUFFIX)
        if not stat.S_ISREG(lock.st_mode) or lock.st_uid != os.geteuid():
            return False
        folder = os.lstat(path)
        return stat.S_ISDIR(folder.st_mode) and folder.st_uid == os.geteuid()
    return True


def _remove_if_unlocked(path: str) -> None:
    try:
        fd = locks.open_file(path + LOCK_SUFFIX, 0)
    except OSError:
        return  # another process has removed it
    try:
        if locks.try_lock(fd, path) and locks.is_current(fd, path + LOCK_SUFFIX):
            _remove(path)
    finally:
        os.close(fd)


def _remove(path: str) -> None:
    """Remove the folder, then its lock."""
    cache_folder.discard_folder(path)
    if not os.path.lexists(path):  # else a program of the killed process still writes there
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path + LOCK_SUFFIX)
