# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Locks of files. The kernel releases a lock when its holders have ended, however they end.

The holders are this process and the programs that it starts, which may outlive
it for a moment. A process id would not do: each PID namespace has others.
"""

import contextlib
import fcntl
import os
from typing import List, Tuple

from . import progress
from .errors import Unavailable

_held_fds: List[int] = []


def held_fds() -> Tuple[int, ...]:
    """The descriptors that a program inherits, so that it holds the locks, too."""
    return tuple(_held_fds)


def hold(fd: int) -> contextlib.ExitStack:
    """The descriptor has a lock, which is released and closed at the end of the stack's block.

    Without a block, the lock is held until this process ends.
    """
    block = contextlib.ExitStack()
    _held_fds.append(fd)
    block.callback(_release, fd)
    return block


def _release(fd: int) -> None:
    _held_fds.remove(fd)
    with contextlib.suppress(OSError):
        fcntl.flock(fd, fcntl.LOCK_UN)
    os.close(fd)


def open_file(path: str, flags: int = os.O_CREAT) -> int:
    """Open the file of a lock; not through a link."""
    return os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | flags, 0o600)


def try_lock(fd: int, path: str) -> bool:
    """Lock the open file, unless another process has it locked."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as problem:
        raise _no_locks(path, problem) from problem
    return True


def lock(fd: int, path: str) -> None:
    """Lock the open file; waits for the process that has it locked."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
    except OSError as problem:
        raise _no_locks(path, problem) from problem


def is_locked(path: str) -> bool:
    """Whether a process has the file locked; a missing file is not. Others that ask get the same answer."""
    try:
        fd = open_file(path, 0)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def is_current(fd: int, path: str) -> bool:
    """Whether the path still names the open file."""
    try:
        return os.path.samestat(os.fstat(fd), os.lstat(path))
    except FileNotFoundError:
        return False


def _no_locks(path: str, problem: OSError) -> Unavailable:
    return Unavailable(
        f"cannot lock {progress.abbreviate_home(path)}: {problem.strerror}; "
        "use a file system that has locks: set SOFTRDMA_CACHE or TMPDIR to a folder of one"
    )
