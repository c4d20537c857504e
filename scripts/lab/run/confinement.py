# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Confines the process of a guest's kernel or emulator on the host.

A command is root in its guest, and a program of a user-mode kernel can take over
the kernel's process. So whatever the process does must be harmless: it reads what
the caller may read, and writes only in the folders of --write and where it keeps
its memory. It has no capabilities but those by which root accesses files, no
sockets except those that it inherits, and sends no signals to other processes.

Landlock does this, with a filter of system calls. Where the kernel has no
Landlock and the caller may mount, a mount namespace does, in which all other files
are read-only. Where neither is possible, a note says so.
"""

import ctypes
import errno
import json
import os
import socket
import struct
from typing import List, NamedTuple, Optional, Sequence

from ..core import progress
from . import landlock, syscall_filter
from .attribute_broker import AttributeBroker

PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
CLONE_NEWNS = 0x00020000
MS_REC, MS_PRIVATE = 0x4000, 0x40000
SYS_OPEN_TREE, SYS_MOVE_MOUNT, SYS_MOUNT_SETATTR = 428, 429, 442
OPEN_TREE_CLONE, OPEN_TREE_CLOEXEC, AT_RECURSIVE = 1, os.O_CLOEXEC, 0x8000
MOVE_MOUNT_F_EMPTY_PATH, AT_FDCWD = 4, -100
MOUNT_ATTR_RDONLY, MOUNT_ATTR_NODEV = 1, 4
CAPABILITY_VERSION = 0x20080522
CAP_SETPCAP, NUM_CAPABILITIES = 8, 64
# CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER: by these root accesses files of all users.
FILE_CAPABILITIES = 0b1111
MAX_REPORT_BYTES = 4096

_libc = ctypes.CDLL(None, use_errno=True)


class Access(NamedTuple):
    """What the process may change. Paths are absolute."""

    writable: Sequence[str]  # folders
    removable: Sequence[str] = ()  # folders whose files it may remove
    devices: Sequence[str] = ()  # device nodes that it writes and controls


class Confinement:
    """Of one process. It is made before the fork; apply() is for the child, receive_broker() for the parent."""

    def __init__(self, access: Access, with_broker: bool, landlock_version: Optional[int] = None):
        """with_broker: see receive_broker(). landlock_version: None: that of the running kernel."""
        self.access = access
        self.with_broker = with_broker
        self.landlock_version = (
            landlock.kernel_version() if landlock_version is None else landlock_version
        )
        self.ruleset = self._make_ruleset() if self.landlock_version else None
        # By this the child reports what it cannot do, and sends the descriptor of its filter.
        self.parent_end, self.child_end = socket.socketpair()

    def _make_ruleset(self) -> landlock.Ruleset:
        ruleset = landlock.Ruleset(self.landlock_version)
        for path in self.access.writable:
            ruleset.allow(path, landlock.FOLDER_WRITE)
        for path in self.access.removable:
            ruleset.allow(path, landlock.REMOVE_FILE)
        for path in self.access.devices:
            ruleset.allow(path, landlock.WRITE_FILE | landlock.IOCTL_DEV)
        return ruleset

    def apply(self) -> None:
        """Confine this process for good, and its later children, as far as the running kernel permits."""
        problems = []
        if not self.ruleset:
            try:
                access = self.access
                _enter_mount_namespace([*access.writable, *access.removable, *access.devices])
            except OSError as problem:
                problems.append(f"it has no Landlock and no mount namespace ({problem.strerror})")
        _check(_libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        if self.ruleset:
            self.ruleset.restrict()
        if not _drop_capabilities():
            problems.append("it keeps root's capabilities (there is no CAP_SETPCAP to drop them)")
        fds = []
        try:
            fds = self._install_filter()
        except OSError as problem:
            problems.append(f"it has no filter of system calls ({problem.strerror})")
        if self.with_broker and not fds:
            problems.append("attributes of files and signals have no broker")
        socket.send_fds(self.child_end, [json.dumps(problems).encode()], fds)

    def _install_filter(self) -> List[int]:
        """Returns the descriptor for the broker, if there is one."""
        machine = os.uname().machine
        if not syscall_filter.is_supported(machine):
            raise OSError(errno.ENOSYS, f"none for {machine}")
        version, pid = self.landlock_version, os.getpid()
        if self.with_broker:
            rules = syscall_filter.make_rules(version, pid, with_broker=True)
            try:
                return [syscall_filter.install(rules, with_listener=True)]
            except OSError as problem:
                if problem.errno != errno.EBUSY:  # a filter of the container has the only broker
                    raise
        rules = syscall_filter.make_rules(version, pid, False, self.with_broker)
        syscall_filter.install(rules, with_listener=False)
        return []

    def receive_broker(self, pid: int) -> Optional[AttributeBroker]:
        """The broker of the child, which has called apply(). Prints what apply() could not do."""
        self.child_end.close()
        if self.ruleset:
            self.ruleset.close()
        with self.parent_end:
            report, fds, _, _ = socket.recv_fds(self.parent_end, MAX_REPORT_BYTES, 1)
        problems = json.loads(report)
        if problems:
            progress.note(
                f"this machine does not confine a guest fully: {', '.join(problems)}; "
                "run only commands that you trust, see SECURITY in softrdma(1)"
            )
        return AttributeBroker(fds[0], pid, self.access.writable) if fds else None


def _enter_mount_namespace(writable: List[str]) -> None:
    """Make all mounts read-only and without devices, except those paths. This needs CAP_SYS_ADMIN.

    A user namespace would permit it to all users. But there root's files belong to user nobody, so in the
    guest setuid programs such as mount would not work.
    """
    _check(_libc.unshare(CLONE_NEWNS))
    _check(_libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None))
    # Copies of the mounts, which stay writable.
    copies = {
        path: _check(
            _libc.syscall(
                SYS_OPEN_TREE,
                AT_FDCWD,
                os.fsencode(path),
                OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE,
            )
        )
        for path in writable
    }
    attributes = struct.pack("=QQQQ", MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV, 0, 0, 0)
    size = ctypes.c_size_t(len(attributes))
    _check(_libc.syscall(SYS_MOUNT_SETATTR, AT_FDCWD, b"/", AT_RECURSIVE, attributes, size))
    for path, fd in copies.items():
        target = os.fsencode(os.path.realpath(path))
        _check(_libc.syscall(SYS_MOVE_MOUNT, fd, b"", AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH))
        os.close(fd)
    # The current folder is still of the mount that it was opened from.
    os.chdir(os.getcwd())


def _read_capabilities() -> int:
    """The effective capabilities of this process."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith("CapEff:"):
                return int(line.split()[1], 16)
    return 0


def _drop_capabilities() -> bool:
    """All but FILE_CAPABILITIES, also for the programs that this process executes.

    Returns whether that is possible.
    """
    capabilities = _read_capabilities()
    if capabilities & 1 << CAP_SETPCAP:
        for capability in range(NUM_CAPABILITIES):
            if not FILE_CAPABILITIES & 1 << capability:
                _libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    elif os.geteuid() == 0:
        # Root would gain them back from the bounding set at each execve(), and so lose its personality
        # each time, for which the user-mode kernel executes itself again.
        return not capabilities & ~FILE_CAPABILITIES
    header = struct.pack("=Ii", CAPABILITY_VERSION, 0)
    mask = capabilities & FILE_CAPABILITIES
    _check(_libc.capset(header, struct.pack("=6I", mask, mask, 0, 0, 0, 0)))
    return True


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int(result)
