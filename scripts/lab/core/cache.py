# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The cache folder. An entry exists whole or not at all.

An entry is made in NAME.part and renamed when it is complete. Its manifest has
the size of each file and the SHA-256 of those that a guest boots from. Both are
compared before each use; a damaged entry is made again.
"""

import contextlib
import glob
import json
import os
import shutil
import stat
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Set

from . import files, locks, progress, supervisor, trust
from .cache_folder import (
    PART_SUFFIX,
    cache_path,
    discard_folder,
    find_folder,
    make_cache_folder,
    remove_folder,
    safe_umask,
)
from .errors import Unavailable

__all__ = [
    "PART_SUFFIX",
    "cache_path",
    "discard_folder",
    "find_folder",
    "make_cache_folder",
    "remove_folder",
    "safe_umask",
]

MANIFEST = "manifest.json"
# depmod rewrites modules.* when a module is added.
UNCHECKED_PREFIX = "modules."


def require_space(
    megabytes: int,
    purpose: str,
    path: Optional[str] = None,
    remedy: str = "set SOFTRDMA_CACHE to a folder on another disk",
) -> None:
    """Raise if the folder, by default the cache, is on a disk with less free space."""
    path = path or make_cache_folder()
    free = shutil.disk_usage(path).free
    if free < megabytes * 1_000_000:
        raise Unavailable(
            f"not enough space for {purpose}: it needs {megabytes} MB in {progress.abbreviate_home(path)}, "
            f"where {progress.format_megabytes(free)} are free; free some, or {remedy}"
        )


@contextlib.contextmanager
def lock_entry(*names: str, wait: bool = True) -> Iterator[bool]:
    """Lock an entry; waits for a softrdma that makes it. Without wait, yields whether it is locked.

    Files that are made in the block can be written by their owner only.
    """
    make_cache_folder(*names[:-1])
    path = cache_path(*names) + ".lock"
    try:
        fd = locks.open_file(path)
    except OSError as problem:
        raise Unavailable(
            f"cannot open {progress.abbreviate_home(path)}: {problem.strerror}; set SOFTRDMA_CACHE to a writable folder"
        ) from problem
    with locks.hold(fd):
        if not locks.try_lock(fd, path):
            if not wait:
                yield False
                return
            with progress.Step(f"waiting for another softrdma that makes {names[-1]}"):
                locks.lock(fd, path)
        with safe_umask():
            yield True


def get_or_build(
    kind: str, name: str, build: Callable[[str], Dict[str, Any]], hashed_files: Iterable[str]
) -> str:
    """The path of an entry. If it is missing or damaged, build(folder) makes it.

    kind: the folder of the cache that has it.
    build returns the facts that the manifest records, such as a version.
    hashed_files: the files, relative to it, whose contents are compared at each use.
    """
    path = cache_path(kind, name)
    with lock_entry(kind, name):
        damage = find_damage(path)
        if damage is None:
            return path
        if os.path.isdir(path):
            progress.note(f"the cached {name} is damaged ({damage}); making it again")
            remove_folder(path)
        with supervisor.Undo() as undo:
            part = path + PART_SUFFIX
            remove_folder(part)  # of a softrdma that was killed: the lock is held
            undo.callback(discard_folder, part)
            os.makedirs(part)
            facts = build(part)
            write_manifest(part, facts, list(hashed_files))
            with supervisor.defer_signals():
                os.rename(part, path)
    return path


def write_manifest(path: str, facts: Dict[str, Any], hashed_files: List[str]) -> None:
    """Write the manifest of a complete entry; hashed_files: those to compare at each use.

    Files that a package lets others write are made safe: see find_damage().
    """
    sizes = {}
    for name in _checked_files(path):
        sizes[name] = _deny_others(os.path.join(path, name)).st_size
    for name in [*_folders_of(sizes), *_unchecked_files(path)]:
        _deny_others(os.path.join(path, name))
    hashes = {name: files.hash_file(os.path.join(path, name)) for name in hashed_files}
    part = os.path.join(path, MANIFEST + PART_SUFFIX)
    with open(part, "w", encoding="utf-8") as file:
        json.dump({"facts": facts, "sizes": sizes, "sha256": hashes}, file, sort_keys=True)
    os.rename(part, os.path.join(path, MANIFEST))


def _deny_others(path: str) -> os.stat_result:
    """Let only the owner write the file or folder. Returns its lstat()."""
    info = os.lstat(path)
    if info.st_mode & trust.WRITABLE_BY_OTHERS and not stat.S_ISLNK(info.st_mode):
        os.chmod(path, stat.S_IMODE(info.st_mode) & ~trust.WRITABLE_BY_OTHERS)
    return info


def read_manifest(path: str) -> Optional[Dict[str, Any]]:
    """The manifest of an entry; None if it is missing or in error. Raises if it is not trusted."""
    manifest_path = os.path.join(path, MANIFEST)
    try:
        trust.require_trusted_folder(path)
        trust.require_trusted(manifest_path)
        with open(manifest_path, encoding="utf-8") as file:
            manifest = json.load(file)
        parts = [manifest[name] for name in ("facts", "sizes", "sha256")]
        return manifest if all(isinstance(part, dict) for part in parts) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def read_facts(path: str) -> Dict[str, Any]:
    """The facts in the manifest of an entry; empty if it is missing or broken."""
    manifest = read_manifest(path)
    return dict(manifest["facts"]) if manifest else {}


def find_damage(path: str) -> Optional[str]:
    """What is wrong with an entry; None if nothing is. Raises if another user can have changed it."""
    if not os.path.isdir(path):
        return "it is missing"
    manifest = read_manifest(path)
    if manifest is None:
        return "its manifest is missing or broken"
    for name in [*_folders_of(manifest["sizes"]), *_unchecked_files(path)]:
        with contextlib.suppress(FileNotFoundError):
            trust.require_trusted(os.path.join(path, name), entry=path)
    for name, size in manifest["sizes"].items():
        file_path = os.path.join(path, name)
        try:
            info = os.lstat(file_path)
        except OSError:
            return f"{name} is missing"
        trust.require_trusted(file_path, info, path)
        if info.st_size != size:
            return f"{name} has another size"
    for name, expected in manifest["sha256"].items():
        if files.hash_file(os.path.join(path, name)) != expected:
            return f"{name} has other contents"
    return None


def _folders_of(names: Iterable[str]) -> Set[str]:
    """The folders that have these files of an entry, relative to it."""
    folders: Set[str] = set()
    for name in names:
        folder = os.path.dirname(name)
        while folder and folder not in folders:
            folders.add(folder)
            folder = os.path.dirname(folder)
    return folders


def _unchecked_files(path: str) -> List[str]:
    """Files that the manifest does not have, although modprobe reads them."""
    pattern = os.path.join(glob.escape(path), "lib", "modules", "*", UNCHECKED_PREFIX + "*")
    return [os.path.relpath(file, path) for file in glob.glob(pattern)]


def _checked_files(path: str) -> Iterator[str]:
    """The files of an entry whose sizes the manifest has, relative to it."""
    for folder, _, names in os.walk(path):
        for name in names:
            if not name.startswith((UNCHECKED_PREFIX, MANIFEST)):
                yield os.path.relpath(os.path.join(folder, name), path)
