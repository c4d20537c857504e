# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The cache folder: an entry is there whole, or it is not there.

An entry is made in a folder beside its place and renamed when complete. Its
manifest holds the size of every file and the SHA-256 of those that a guest
boots from; both are compared before each use, and a damaged entry is made
again.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional

from . import keeper, say
from .errors import CannotHere

MANIFEST = "manifest.json"
# What depmod writes anew when a module is added.
UNCHECKED = "modules."


def folder(*names: str) -> str:
    base = os.environ.get("SOFTRDMA_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "softrdma"
    )
    return os.path.join(os.path.abspath(base), *names)


def make_folder(*names: str) -> str:
    path = folder(*names)
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as problem:
        raise CannotHere(
            f"cannot make the cache folder {path}: {problem.strerror}; set SOFTRDMA_CACHE to one you can write"
        ) from problem
    return path


def need_room(
    megabytes: int,
    purpose: str,
    path: Optional[str] = None,
    remedy: str = "set SOFTRDMA_CACHE to a folder on another disk",
) -> None:
    path = path or make_folder()
    free = shutil.disk_usage(path).free
    if free < megabytes * 1_000_000:
        raise CannotHere(
            f"no room for {purpose}: it needs {megabytes} MB in {say.home_relative(path)}, where {say.megabytes(free)} are free; "
            f"free some, or {remedy}"
        )


@contextlib.contextmanager
def locked(*names: str) -> Iterator[None]:
    """One softrdma at a time makes an entry; others wait and then find it."""
    make_folder(*names[:-1])
    lock = os.open(folder(*names) + ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with say.Step(f"waiting for another softrdma that makes {names[-1]}"):
                fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def entry(
    kind: str, name: str, build: Callable[[str], Dict[str, Any]], checked: Iterable[str]
) -> str:
    """The path of an entry, made by build(folder) -> facts unless it is there and whole.

    checked: the files, relative to it, whose contents are compared at each use.
    """
    path = folder(kind, name)
    with locked(kind, name):
        reason = damage(path)
        if reason is None:
            return path
        if os.path.isdir(path):
            say.note(f"the cached {name} is damaged ({reason}); making it again")
            shutil.rmtree(path)
        with keeper.Undo() as undo:
            part = f"{path}.part"
            shutil.rmtree(part, ignore_errors=True)
            undo.callback(shutil.rmtree, part, ignore_errors=True)
            os.makedirs(part)
            facts = build(part)
            write_manifest(part, facts, list(checked))
            with keeper.deferred():
                os.rename(part, path)
    return path


def write_manifest(path: str, facts: Dict[str, Any], checked: List[str]) -> None:
    sizes = {name: os.lstat(os.path.join(path, name)).st_size for name in _files(path)}
    hashes = {name: _sha256(os.path.join(path, name)) for name in checked}
    part = os.path.join(path, MANIFEST + ".part")
    with open(part, "w", encoding="utf-8") as file:
        json.dump({"facts": facts, "sizes": sizes, "sha256": hashes}, file, sort_keys=True)
    os.rename(part, os.path.join(path, MANIFEST))


def manifest(path: str) -> Optional[Dict[str, Any]]:
    try:
        with open(os.path.join(path, MANIFEST), encoding="utf-8") as file:
            read = json.load(file)
        parts = [read[name] for name in ("facts", "sizes", "sha256")]
        return read if all(isinstance(part, dict) for part in parts) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def damage(path: str) -> Optional[str]:
    """What is wrong with the entry; None if nothing."""
    if not os.path.isdir(path):
        return "it is missing"
    listed = manifest(path)
    if listed is None:
        return "its manifest is missing or broken"
    for name, size in listed["sizes"].items():
        try:
            if os.lstat(os.path.join(path, name)).st_size != size:
                return f"{name} has another size"
        except OSError:
            return f"{name} is missing"
    for name, expected in listed["sha256"].items():
        if _sha256(os.path.join(path, name)) != expected:
            return f"{name} has other contents"
    return None


def _files(path: str) -> Iterator[str]:
    for place, _, names in os.walk(path):
        for name in names:
            if not name.startswith((UNCHECKED, MANIFEST)):
                yield os.path.relpath(os.path.join(place, name), path)


def _sha256(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
