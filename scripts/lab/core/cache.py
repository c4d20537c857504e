# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The cache folder. An entry exists whole or not at all.

An entry is made in NAME.part and renamed when it is complete. Its manifest has
the size of each file and the SHA-256 of those that a guest boots from. Both are
compared before each use; a damaged entry is made again.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional

from . import progress, supervisor
from .errors import Unavailable

MANIFEST = "manifest.json"
# depmod rewrites modules.* when a module is added.
UNCHECKED_PREFIX = "modules."


def cache_path(*names: str) -> str:
    base = os.environ.get("SOFTRDMA_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "softrdma"
    )
    return os.path.join(os.path.abspath(base), *names)


def make_cache_folder(*names: str) -> str:
    path = cache_path(*names)
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as problem:
        raise Unavailable(
            f"cannot make the cache folder {path}: {problem.strerror}; set SOFTRDMA_CACHE to a writable one"
        ) from problem
    return path


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
    """Lock an entry; waits for a softrdma that makes it. Without wait, yields whether it is locked."""
    make_cache_folder(*names[:-1])
    lock = os.open(cache_path(*names) + ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not wait:
                yield False
                return
            with progress.Step(f"waiting for another softrdma that makes {names[-1]}"):
                fcntl.flock(lock, fcntl.LOCK_EX)
        yield True
    finally:
        os.close(lock)


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
            shutil.rmtree(path)
        with supervisor.Undo() as undo:
            part = f"{path}.part"
            shutil.rmtree(part, ignore_errors=True)
            undo.callback(shutil.rmtree, part, ignore_errors=True)
            os.makedirs(part)
            facts = build(part)
            write_manifest(part, facts, list(hashed_files))
            with supervisor.defer_signals():
                os.rename(part, path)
    return path


def write_manifest(path: str, facts: Dict[str, Any], hashed_files: List[str]) -> None:
    """Write the manifest of a complete entry; hashed_files: those to compare at each use."""
    sizes = {name: os.lstat(os.path.join(path, name)).st_size for name in _checked_files(path)}
    hashes = {name: _sha256(os.path.join(path, name)) for name in hashed_files}
    part = os.path.join(path, MANIFEST + ".part")
    with open(part, "w", encoding="utf-8") as file:
        json.dump({"facts": facts, "sizes": sizes, "sha256": hashes}, file, sort_keys=True)
    os.rename(part, os.path.join(path, MANIFEST))


def read_manifest(path: str) -> Optional[Dict[str, Any]]:
    """The manifest of an entry; None if it is missing or broken."""
    try:
        with open(os.path.join(path, MANIFEST), encoding="utf-8") as file:
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
    """What is wrong with an entry; None if nothing is."""
    if not os.path.isdir(path):
        return "it is missing"
    manifest = read_manifest(path)
    if manifest is None:
        return "its manifest is missing or broken"
    for name, size in manifest["sizes"].items():
        try:
            if os.lstat(os.path.join(path, name)).st_size != size:
                return f"{name} has another size"
        except OSError:
            return f"{name} is missing"
    for name, expected in manifest["sha256"].items():
        if _sha256(os.path.join(path, name)) != expected:
            return f"{name} has other contents"
    return None


def _checked_files(path: str) -> Iterator[str]:
    """The files of an entry whose sizes the manifest has, relative to it."""
    for folder, _, names in os.walk(path):
        for name in names:
            if not name.startswith((UNCHECKED_PREFIX, MANIFEST)):
                yield os.path.relpath(os.path.join(folder, name), path)


def _sha256(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
