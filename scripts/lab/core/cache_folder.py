# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The folder of the cache: where it is, whether it is softrdma's, and whether it is trusted.

softrdma writes and removes files only in a folder that has its marker, the file
CACHEDIR.TAG (backup programs know it by its first line). It puts the marker into
a folder that is missing or empty. The default folder that an older softrdma has
filled gets the marker, too.
"""

import contextlib
import os
import shutil
import stat
from typing import Iterator, List, Optional

from . import mounts, progress, trust
from .errors import LabError, Unavailable, UsageError

MARKER = "CACHEDIR.TAG"
MARKER_TEXT = """Signature: 8a477f597d28d172789f06886806bc55
# This folder is a cache of softrdma, which removes files in it. Keep no other files in it.
# See softrdma(1). For information about cache directory tags, see https://bford.info/cachedir/
"""
PART_SUFFIX = ".part"
# What older softrdmas, and tests/debian, have put into the default folder.
FOLDERS, FILES = {"apt", "emulators", "kernels", "roots", "uml", "work"}, {"kvm"}


def cache_path(*names: str) -> str:
    base = os.path.abspath(os.environ.get("SOFTRDMA_CACHE") or _default_path())
    if "\n" in base:
        raise UsageError(
            f"the cache folder {base!r} has a newline in its path, which apt cannot use; {trust.OTHER_CACHE}"
        )
    return os.path.join(base, *names)


def _default_path() -> str:
    return os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "softrdma"
    )


def find_folder(*names: str) -> Optional[str]:
    """The path of a trusted folder of the cache; None if it does not exist. Makes none."""
    root = cache_path()
    if not os.path.isdir(root) or not (_has_marker(root) or _require_adoptable(root)):
        return None
    trust.require_trusted_root(root)
    path = root
    for name in _split(names):
        path = os.path.join(path, name)
        if not os.path.lexists(path):
            return None
        trust.require_trusted_folder(path)
    return path


def make_cache_folder(*names: str) -> str:
    """The path of a trusted folder of the cache, which is made if it is missing."""
    path = root = cache_path()
    try:
        with safe_umask():
            _make_root(root)
            if not _has_marker(root):
                _require_adoptable(root)
                trust.require_trusted_root(root)
                _remove_default_list(root)
                _write_marker(root)
            trust.require_trusted_root(root)
            for name in _split(names):
                path = os.path.join(path, name)
                with contextlib.suppress(FileExistsError):
                    _make_folder(path)
                trust.require_trusted_folder(path)
    except OSError as problem:
        raise Unavailable(
            f"cannot make the cache folder {path}: {problem.strerror}; set SOFTRDMA_CACHE to a writable one"
        ) from problem
    return path


def _make_root(root: str) -> None:
    """Make the folder and those above it that are missing, only in folders that are trusted."""
    missing, path = [], root
    while not os.path.lexists(path):
        missing.append(path)
        path = os.path.dirname(path)
    with contextlib.ExitStack() as undo:
        for path in reversed(missing):
            trust.require_trusted_place(root)  # as far as it exists: also what another process made
            with contextlib.suppress(FileExistsError):
                _make_folder(path)
                undo.callback(_remove_if_empty, path)
        if missing:
            trust.require_trusted_root(root)
        undo.pop_all()


def _make_folder(path: str) -> None:
    """Make a folder that only its owner can write, also if the one above has a default access list."""
    os.mkdir(
        path, 0o755
    )  # the list's rights are reduced to those of the group, and there is no umask
    _remove_default_list(path)


def _remove_default_list(path: str) -> None:
    """Let what is made in the folder not inherit rights of other users."""
    with contextlib.suppress(OSError):  # it has none
        os.removexattr(path, "system.posix_acl_default")


def _remove_if_empty(path: str) -> None:
    with contextlib.suppress(OSError):  # another softrdma may use it
        os.rmdir(path)


@contextlib.contextmanager
def safe_umask() -> Iterator[None]:
    """Files that are made in the block can be written by their owner only, also by programs."""
    old_umask = os.umask(0o022)
    os.umask(old_umask | 0o022)
    try:
        yield
    finally:
        os.umask(old_umask)


def remove_folder(path: str) -> None:
    """Remove a folder that softrdma made, which may be missing, with all in it.

    Raises if something is mounted in it.
    """
    try:
        if os.path.lexists(path):
            mounts.require_no_mounts(path)
        shutil.rmtree(path)
    except FileNotFoundError:
        pass
    except OSError as problem:
        raise LabError(
            f"cannot remove {progress.abbreviate_home(path)}: {problem.strerror or problem}"
        ) from problem


def discard_folder(path: str) -> None:
    """remove_folder() of a temporary folder: an error is printed, or leaves what cannot be removed."""
    try:
        mounts.require_no_mounts(path)
    except LabError as problem:
        progress.note(str(problem))
        return
    shutil.rmtree(path, ignore_errors=True)


def _split(names: "tuple[str, ...]") -> List[str]:
    return [name for path in names for name in path.split("/")]


def _has_marker(root: str) -> bool:
    """Whether the folder has the marker, exactly as softrdma writes it."""
    try:
        fd = os.open(
            os.path.join(root, MARKER),
            os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC,
        )
    except OSError:
        return False
    with open(fd, "rb") as file:
        is_file = stat.S_ISREG(os.fstat(fd).st_mode)
        return is_file and file.read(len(MARKER_TEXT) + 1) == MARKER_TEXT.encode()


def _require_adoptable(root: str) -> bool:
    """Raise if a folder without the marker has files of others. Returns whether it has a cache."""
    try:
        with os.scandir(root) as iterator:
            entries = [entry for entry in iterator if not _is_marker_part(entry.name)]
    except PermissionError as problem:
        raise Unavailable(
            f"cannot read the cache folder {root}: {problem.strerror}; {trust.OTHER_CACHE}"
        ) from problem
    if not entries or _has_marker(root):  # which another softrdma has just written
        return bool(entries)
    configured = os.environ.get("SOFTRDMA_CACHE")
    if configured and root != os.path.abspath(_default_path()):
        example = os.path.join(configured, "softrdma")
        raise UsageError(
            f"SOFTRDMA_CACHE={configured}: this folder has other files and is no cache of softrdma's "
            f"(it has no {MARKER} of softrdma); name a new or empty folder, such as SOFTRDMA_CACHE={example}"
        )
    for entry in entries:
        # File managers and NFS leave hidden files anywhere; they stay.
        is_file_name = entry.name in FILES or entry.name.startswith(".")
        if not (
            (entry.name in FOLDERS and entry.is_dir(follow_symlinks=False))
            or (is_file_name and entry.is_file(follow_symlinks=False))
        ):
            raise UsageError(
                f"{root} is the cache folder, and has {entry.name}, which softrdma did not make; "
                "move that away, or set SOFTRDMA_CACHE to a new folder"
            )
    return True


def _is_marker_part(name: str) -> bool:
    """Whether a softrdma that was killed can have left a file of that name."""
    return name.startswith(MARKER + ".") and name.endswith(PART_SUFFIX)


def _write_marker(root: str) -> None:
    """Write the marker, whole or not at all, also if others do so at the same time."""
    part = os.path.join(root, f"{MARKER}.{os.urandom(8).hex()}{PART_SUFFIX}")
    try:
        with open(part, "x", encoding="ascii") as file:
            file.write(MARKER_TEXT)
        os.rename(part, os.path.join(root, MARKER))
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part)
