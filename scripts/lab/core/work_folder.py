# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Temporary folders in the cache, for what is too large for /tmp.

A folder work/NAME.RANDOM belongs to the process that has the lock of the file
work/NAME.RANDOM.lock beside it. It makes the file first and removes it last. If
that lock is free, the process was killed, and the next one removes both.
"""

import contextlib
import os
import re

from . import cache_folder, locks, supervisor

CACHE_KIND = "work"
LOCK_SUFFIX = ".lock"
LOCK_NAME = re.compile(r"[0-9A-Za-z.+~_-]+\.[0-9a-f]{16}\.lock")


def make_work_folder(undo: supervisor.Undo, name: str) -> str:
    """Make a temporary folder in the cache, which other users cannot enter."""
    parent = cache_folder.make_cache_folder(CACHE_KIND)
    _remove_abandoned(parent)
    with cache_folder.safe_umask(), supervisor.defer_signals():
        path, fd = _lock_new_name(parent, name)
        undo.enter_context(locks.hold(fd))
        undo.callback(_remove, path)
        os.mkdir(path, 0o700)
    return path


def _lock_new_name(parent: str, name: str) -> "tuple[str, int]":
    """The path of a folder that does not exist, and the descriptor of its lock."""
    while True:
        path = os.path.join(parent, f"{name}.{os.urandom(8).hex()}")
        fd = locks.open_file(path + LOCK_SUFFIX, os.O_CREAT | os.O_EXCL)
        # Before it is locked, another process can take the file for one of a killed process.
        if locks.try_lock(fd, path) and locks.is_current(fd, path + LOCK_SUFFIX):
            return path, fd
        os.close(fd)


def _remove_abandoned(parent: str) -> None:
    """Remove the folders of processes that were killed."""
    for entry in os.listdir(parent):
        if not LOCK_NAME.fullmatch(entry):
            continue
        lock_path = os.path.join(parent, entry)
        try:
            fd = locks.open_file(lock_path, 0)
        except OSError:
            continue  # it was removed, or is another user's
        try:
            if locks.try_lock(fd, lock_path) and locks.is_current(fd, lock_path):
                _remove(lock_path.removesuffix(LOCK_SUFFIX))
        finally:
            os.close(fd)


def _remove(path: str) -> None:
    """Remove the folder, then its lock, which is held."""
    cache_folder.discard_folder(path)
    if not os.path.lexists(path):  # else a program of the killed process still writes there
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path + LOCK_SUFFIX)
