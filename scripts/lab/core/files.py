# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Files: written where other users can neither direct nor change them, and their hashes."""

import contextlib
import errno
import hashlib
import os
import stat
from typing import Iterator, List, NamedTuple, Optional

HASHED_BLOCK_BYTES = 1 << 20
MAX_LINKS = 40  # of a path, as in the kernel


def replace_file(path: str, text: str) -> None:
    """Write the file, whole or not at all: by rename(). A link is replaced, not followed."""
    with _written_part(path, text) as (folder, part, name):
        os.rename(part, name, src_dir_fd=folder, dst_dir_fd=folder)


def create_file(path: str, text: str) -> None:
    """Write a new file, whole or not at all. Raises FileExistsError if the file or a link exists."""
    with _written_part(path, text) as (folder, part, name):
        os.link(part, name, src_dir_fd=folder, dst_dir_fd=folder)  # rename() would replace it


@contextlib.contextmanager
def _written_part(path: str, text: str) -> Iterator["tuple[int, str, str]"]:
    """A file in the folder of path. Yields the folder's descriptor, the file's name and that of path.

    The name is random and the file is new: no other user can have made a link of that name.
    """
    folder_path, name = os.path.split(os.path.abspath(path))
    folder = os.open(folder_path, os.O_PATH | os.O_DIRECTORY)
    part = f".{name[:200]}.{os.urandom(8).hex()}.part"

    def create(part_name: str, _flags: int) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(part_name, flags, 0o666, dir_fd=folder)

    try:
        with open(part, "w", encoding="utf-8", opener=create) as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        yield folder, part, name
    finally:
        with contextlib.suppress(OSError):
            os.unlink(part, dir_fd=folder)
        os.close(folder)


def write_to_stream(path: str, text: str) -> bool:
    """Write to a descriptor (/dev/stdout), terminal, pipe or other node.

    Returns False if the path is none: a regular file, a link to one, or missing.
    """
    descriptor = _named_descriptor(path)
    if descriptor is None:
        with contextlib.suppress(FileNotFoundError):
            if stat.S_ISREG(os.stat(path).st_mode):
                return False
            # Neither O_CREAT nor O_TRUNC: the path may be a regular file by now.
            descriptor = os.open(path, os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC)
        if descriptor is None:
            return False
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            return False
    else:
        descriptor = os.dup(descriptor)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    return True


def _named_descriptor(path: str) -> Optional[int]:
    """The number if the path is that of a descriptor of this process, which has a regular file perhaps."""
    folder, name = os.path.split(os.path.abspath(path))
    if folder in ("/dev/fd", "/proc/self/fd") and name.isdigit():
        return int(name)
    return {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}.get(os.path.join(folder, name))


def hash_file(path: str) -> str:
    """The SHA-256 of the file, in hexadecimal."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(HASHED_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


class Weakness(NamedTuple):
    """The part of a path, a folder, file or link, with which another user than root can change the file."""

    path: str
    owner: int  # 0: root, but others can write


def find_weakness(path: str) -> Optional[Weakness]:
    """path: absolute; links are followed. None: only root can change the file, or let the path lead to another one."""
    folder, num_links = "", 0
    pending = [*_reversed_parts(path), "/"]
    while pending:
        name = pending.pop()
        if name == "..":
            folder = os.path.dirname(folder)
            continue
        part = os.path.join(folder, name)
        status = os.lstat(part)
        if status.st_uid != 0:
            return Weakness(part, status.st_uid)
        if stat.S_ISLNK(status.st_mode):
            num_links += 1
            if num_links > MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            target = os.readlink(part)
            pending += _reversed_parts(target)
            folder = "/" if target.startswith("/") else folder
            continue
        # Root's entries of a sticky folder stay.
        is_sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not is_sticky:
            return Weakness(part, 0)
        folder = part
    return None


def _reversed_parts(path: str) -> List[str]:
    return [part for part in reversed(path.split("/")) if part not in ("", ".")]
