# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Landlock: a process gives up rights on files, TCP ports, signals and sockets.

What is restricted here is all that changes a file. Reading stays as the user's
permissions have it. Landlock knows rights by its version (Linux 5.13 has 1);
rights that the running kernel does not know are left out. Linux has none to
change a file's mode, owner, times and attributes: syscall_filter.py does that.
"""

import ctypes
import os
import stat
import struct

# The numbers are the same on all architectures.
SYS_LANDLOCK_CREATE_RULESET, SYS_LANDLOCK_ADD_RULE, SYS_LANDLOCK_RESTRICT_SELF = 444, 445, 446
LANDLOCK_CREATE_RULESET_VERSION = 1
LANDLOCK_RULE_PATH_BENEATH = 1

WRITE_FILE = 1 << 1
REMOVE_DIR = 1 << 4
REMOVE_FILE = 1 << 5
MAKE_CHAR = 1 << 6
MAKE_DIR = 1 << 7
MAKE_REG = 1 << 8
MAKE_SOCK = 1 << 9
MAKE_FIFO = 1 << 10
MAKE_BLOCK = 1 << 11
MAKE_SYM = 1 << 12
REFER = 1 << 13  # rename and link from one folder to another
TRUNCATE = 1 << 14
IOCTL_DEV = 1 << 15
BIND_TCP, CONNECT_TCP = 1 << 0, 1 << 1
SCOPE_ABSTRACT_UNIX_SOCKET, SCOPE_SIGNAL = 1 << 0, 1 << 1

# What a version added.
REFER_VERSION, TRUNCATE_VERSION, TCP_VERSION, IOCTL_DEV_VERSION, SCOPE_VERSION = 2, 3, 4, 5, 6

# All that a program does in a folder where it may write. Device nodes are not among it.
FOLDER_WRITE = (
    WRITE_FILE | TRUNCATE | REFER | REMOVE_DIR | REMOVE_FILE
    | MAKE_DIR | MAKE_REG | MAKE_SOCK | MAKE_FIFO | MAKE_SYM
)  # fmt: skip
# The rights that a rule for a file, not a folder, can have.
ON_FILE = WRITE_FILE | TRUNCATE | IOCTL_DEV

_libc = ctypes.CDLL(None, use_errno=True)


def kernel_version() -> int:
    """The version of Landlock in the running kernel; 0 if it has none."""
    version = _libc.syscall(
        SYS_LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), LANDLOCK_CREATE_RULESET_VERSION
    )
    return max(0, int(version))


class Ruleset:
    """The paths on which rights stay. All other rights to change something end with restrict()."""

    def __init__(self, version: int):
        handled = FOLDER_WRITE | MAKE_CHAR | MAKE_BLOCK | IOCTL_DEV
        for right, since in (
            (REFER, REFER_VERSION),
            (TRUNCATE, TRUNCATE_VERSION),
            (IOCTL_DEV, IOCTL_DEV_VERSION),
        ):
            if version < since:
                handled &= ~right
        tcp = BIND_TCP | CONNECT_TCP if version >= TCP_VERSION else 0
        scope = SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL if version >= SCOPE_VERSION else 0
        attributes = struct.pack("=QQQ", handled, tcp, scope)
        # An old kernel takes a shorter structure, and a longer one only if its rest is zero.
        self.handled = handled
        self.fd = _check(
            _libc.syscall(
                SYS_LANDLOCK_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0
            )
        )

    def allow(self, path: str, rights: int) -> None:
        """On the file, or on all files in the folder. path must not be a link that another user made."""
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            if not stat.S_ISDIR(os.fstat(fd).st_mode):
                rights &= ON_FILE
            rule = struct.pack("=Qi", rights & self.handled, fd)
            _check(
                _libc.syscall(SYS_LANDLOCK_ADD_RULE, self.fd, LANDLOCK_RULE_PATH_BENEATH, rule, 0)
            )
        finally:
            os.close(fd)

    def restrict(self) -> None:
        """Restrict this process and its later children. It must have no_new_privs or CAP_SYS_ADMIN."""
        _check(_libc.syscall(SYS_LANDLOCK_RESTRICT_SELF, self.fd, 0))

    def close(self) -> None:
        os.close(self.fd)


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"Landlock: {os.strerror(number)}")
    return result
