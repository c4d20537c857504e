# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Which files softrdma trusts: those that only root and the caller can change.

A file or folder belongs to root or to the caller, and neither its group nor
others may write it. No other user can exchange it: each folder above it is
root's or the caller's, too, and if others may write that folder, it is sticky.
"""

import contextlib
import functools
import os
import shlex
import stat
from typing import Iterator, List, NamedTuple, Optional, Set

from .. import LAB_DIR, VERSION
from .errors import LabError

WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
FULL_ID_MAP = ["0", "0", "4294967295"]
PROGRAM_PARENT = os.path.dirname(LAB_DIR)
SHARE_FOLDER = "/share/softrdma"
KERNEL_PACKAGE = "softrdma-uml"
OTHER_CACHE = "set SOFTRDMA_CACHE to another folder"


class Untrusted(LabError):
    """Another user could have changed a file that softrdma uses."""


def package_folders() -> List[str]:
    """Where a softrdma in PREFIX/share/softrdma can have kernels. None in a checkout."""
    if not PROGRAM_PARENT.endswith(SHARE_FOLDER):
        return []
    return [
        os.path.join(PROGRAM_PARENT.removesuffix(SHARE_FOLDER), "lib", "softrdma"),
        PROGRAM_PARENT,
    ]


def is_debian_package() -> bool:
    """Whether apt has installed softrdma: not an archive, a wheel or a checkout."""
    return PROGRAM_PARENT == "/usr" + SHARE_FOLDER


def reinstall_remedy() -> str:
    """What to do if files of this installation are damaged or not trusted."""
    if is_debian_package():
        return f"install it again: apt install --reinstall {KERNEL_PACKAGE}"
    return f"unpack or install softrdma {VERSION} again"


def is_packaged(path: str) -> bool:
    """Whether the absolute path is one of these folders, or in it."""
    return any(f"{path}/".startswith(f"{folder}/") for folder in package_folders())


class _Weakness(NamedTuple):
    """By which another user can change or exchange a path."""

    path: str  # which is weak
    text: str
    command: str  # with which the caller or an administrator can remove it; empty: none


def require_trusted(path: str, info: Optional[os.stat_result] = None, entry: str = "") -> None:
    """Raise if another user can change the file or folder.

    info: its lstat(); read if not given. entry: the folder of many files that has it.
    The mode of a symbolic link means nothing. What it leads to is another path.
    """
    _raise_if_weak(path, _find_weakness(path, info or os.lstat(path), entry))


def require_trusted_folder(path: str) -> None:
    """Raise if the path is not a folder, or another user can change its list of files."""
    _raise_if_weak(path, _find_weakness(path, _folder_info(path)))


def require_trusted_root(path: str) -> None:
    """require_trusted_place(), and require_trusted_folder() of the folder that the path leads to."""
    folder = os.path.realpath(path)
    weaknesses = _find_weakness(folder, _folder_info(folder))
    _raise_if_weak(path, [*_find_leading_weaknesses(os.path.abspath(path)), *weaknesses])


def _folder_info(path: str) -> os.stat_result:
    info = os.lstat(path)
    if not stat.S_ISDIR(info.st_mode):
        raise Untrusted(
            f"{path} is not used: it is a link or a file, not a folder; remove it, or {_remedy(path)}"
        )
    return info


def _raise_if_weak(path: str, weaknesses: List[_Weakness]) -> None:
    """Raise if there are weaknesses. The error names all: the next one would be found only after the first."""
    if not weaknesses:
        return
    reasons = ", and ".join(weakness.text for weakness in weaknesses)
    remedies = [_remedy(path)]
    commands = list(dict.fromkeys(weakness.command for weakness in weaknesses))
    if all(commands):
        remedies.insert(0, f"if no other user has changed it, type: {'; '.join(commands)}")
        if is_packaged(path) and not any(is_packaged(weakness.path) for weakness in weaknesses):
            remedies.pop()  # an installation does not change the folders above
    raise Untrusted(f"{path} is not used: {reasons}; {', or '.join(remedies)}")


def _find_weakness(path: str, info: os.stat_result, entry: str = "") -> List[_Weakness]:
    if info.st_uid not in _trusted_owners(path):
        return [_Weakness(path, f"it belongs to {_user_name(info.st_uid)}, not to you or root", "")]
    if stat.S_ISLNK(info.st_mode) or not _has_other_writers(path, info):
        return []
    command = f"chmod -R go-w {shlex.quote(entry)}" if entry else f"chmod go-w {shlex.quote(path)}"
    text = f"{_writers(info)} may write it (mode {stat.S_IMODE(info.st_mode):04o})"
    return [_Weakness(path, text, command if _may_change_mode(info) else "")]


def require_trusted_tree(path: str) -> None:
    """require_trusted() of a folder and of all in it."""
    require_trusted_folder(path)
    for folder, folder_names, file_names in os.walk(path):
        for name in folder_names + file_names:
            with contextlib.suppress(FileNotFoundError):  # another process has removed it
                require_trusted(os.path.join(folder, name), entry=path)


def require_trusted_place(path: str) -> None:
    """Raise if another user can exchange the path, or a link or folder that leads to it.

    A part of the path may be missing.
    """
    path = os.path.abspath(path)
    _raise_if_weak(path, _find_leading_weaknesses(path))


def _find_leading_weaknesses(path: str) -> List[_Weakness]:
    """Those of the links and folders that lead to the absolute path."""
    owners = _trusted_owners(path) | {_unmapped_owner()}
    weaknesses = []
    for leading in dict.fromkeys(_leading_paths(path)):
        try:
            info = os.lstat(leading)
        except FileNotFoundError:
            continue
        is_protected = stat.S_ISLNK(info.st_mode) or info.st_mode & stat.S_ISVTX
        if info.st_uid not in owners:
            text = f"{leading}, which leads to it, belongs to {_user_name(info.st_uid)}, not to you or root"
            weaknesses.append(_Weakness(leading, text, ""))
        elif not is_protected and _has_other_writers(leading, info):
            text = f"{_writers(info)} may write {leading}, which leads to it (mode {stat.S_IMODE(info.st_mode):04o})"
            command = f"chmod go-w {shlex.quote(leading)}"
            if not _may_change_mode(info):  # of an installed softrdma, an administrator can
                command = f"sudo {command}" if is_packaged(path) and info.st_uid == 0 else ""
            weaknesses.append(_Weakness(leading, text, command))
    return weaknesses


def _leading_paths(path: str, depth: int = 0) -> Iterator[str]:
    """The folders above the absolute path, and the links on the way, with what leads to their targets.

    If the path itself is a link, it is one of them.
    """
    if depth > 40:
        raise Untrusted(f"{path} is not used: too many symbolic links; {_remedy(path)}")
    names = path.split("/")[1:]
    current = "/"
    for number, name in enumerate(names):
        if number:
            yield current
        current = os.path.join(current, name)
        if os.path.islink(current):
            yield current
            target = os.path.join(os.path.dirname(current), os.readlink(current))
            yield from _leading_paths(os.path.normpath(target), depth + 1)
            current = os.path.realpath(current)
    yield "/"


def _trusted_owners(path: str) -> Set[int]:
    owners = {0, os.geteuid()}
    if is_packaged(path):
        # The package's files are as good as its program, which the caller has started. In a user
        # namespace, root's files can have an owner that is not 0.
        owners.add(os.stat(LAB_DIR).st_uid)
    return owners


@functools.lru_cache(maxsize=None)
def _unmapped_owner() -> int:
    """The owner that a user namespace shows for users that it does not map; -1 if it maps all."""
    try:
        with open("/proc/self/uid_map", encoding="ascii") as file:
            if file.read().split() == FULL_ID_MAP:
                return -1
        with open("/proc/sys/kernel/overflowuid", encoding="ascii") as file:
            return int(file.read())
    except OSError:
        return -1


def _has_other_writers(path: str, info: os.stat_result) -> bool:
    """Whether others than root and the caller may write. A user's private group has no other member."""
    if info.st_mode & stat.S_IWOTH:
        return True
    # With an access list, the bits of the group are those of all in the list.
    return bool(info.st_mode & stat.S_IWGRP) and (
        not _is_private_group(info.st_gid) or _has_access_list(path)
    )


def _has_access_list(path: str) -> bool:
    try:
        return "system.posix_acl_access" in os.listxattr(path, follow_symlinks=False)
    except OSError:
        return False


def _may_change_mode(info: os.stat_result) -> bool:
    return info.st_uid == os.geteuid() or (os.geteuid() == 0 and info.st_uid != _unmapped_owner())


def _is_private_group(gid: int) -> bool:
    import grp
    import pwd

    if gid == 0:
        return True
    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    return user.pw_gid == gid and group.gr_name == user.pw_name and not group.gr_mem


def _writers(info: os.stat_result) -> str:
    return "all users" if info.st_mode & stat.S_IWOTH else "its group"


def _remedy(path: str) -> str:
    if is_packaged(path):
        return reinstall_remedy()
    return OTHER_CACHE


def _user_name(uid: int) -> str:
    import pwd

    try:
        return f"user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"user {uid}"
