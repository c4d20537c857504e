# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Changes the mode, owner and times of files in folders of --write for a guest's kernel.

Landlock has no right for these changes, so the kernel's process cannot make them
(syscall_filter.py). Linux holds its system call, softrdma reads the arguments,
makes the change if the file is in one of the folders, and returns the result. The
process could change its memory meanwhile: each argument is read once, and the file
that was checked is the file that is changed.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
import re
import signal
import stat
import struct
import time
from typing import List, Sequence

from . import syscall_filter

SECCOMP_IOCTL_NOTIF_RECV, SECCOMP_IOCTL_NOTIF_SEND = 0xC0502100, 0xC0182101
SECCOMP_IOCTL_NOTIF_ID_VALID = 0x40082102
NOTIFICATION = struct.Struct("=QIIiIQ6Q")  # struct seccomp_notif
RESPONSE = struct.Struct("=QqiI")  # struct seccomp_notif_resp
SYS_OPENAT2 = syscall_filter.COMMON_NUMBERS["openat2"]
RESOLVE_NO_MAGICLINKS, AT_FDCWD, AT_SYMLINK_NOFOLLOW = 0x02, -100, 0x100
SELF_FD = re.compile(rb"/proc/self/(fd/[0-9]+)")
CALLS_WITHOUT_FOLDER = ("chmod", "fchmod", "chown", "fchown", "utimes")
TIMES = struct.Struct("=4q")
UTIME_NOW, UTIME_OMIT = (1 << 30) - 1, (1 << 30) - 2
PATH_MAX = 4096
NO_ID = 0xFFFFFFFF  # of an owner or group that stays

_libc = ctypes.CDLL(None, use_errno=True)


class AttributeBroker:
    def __init__(self, listener: int, guest_pid: int, folders: Sequence[str]):
        """listener: of syscall_filter.install(); folders: where files may be changed."""
        self.listener = listener
        self.guest_pid = guest_pid
        self.folders = [os.path.realpath(folder) for folder in folders]
        numbers = syscall_filter.NUMBERS[os.uname().machine]
        self.names = {numbers[name]: name for name in syscall_filter.BROKER_CALLS + ("kill",)}

    def fileno(self) -> int:
        return self.listener

    def handle_call(self) -> None:
        """Handle one system call. poll() reports POLLIN for the listener when there is one."""
        buffer = bytearray(NOTIFICATION.size)
        try:
            fcntl.ioctl(self.listener, SECCOMP_IOCTL_NOTIF_RECV, buffer)
        except OSError:  # the process has ended, or a signal has interrupted its call
            return
        call_id, thread, _, number, _, _, *arguments = NOTIFICATION.unpack(buffer)
        error = 0
        try:
            self._make_call(call_id, self.names[number], thread, arguments)
        except OSError as problem:
            error = problem.errno or errno.EIO
        except (KeyError, ValueError, OverflowError):
            error = errno.EPERM
        response = RESPONSE.pack(call_id, 0, -error, 0)
        with contextlib.suppress(OSError):
            fcntl.ioctl(self.listener, SECCOMP_IOCTL_NOTIF_SEND, response)

    def _make_call(self, call_id: int, name: str, thread: int, arguments: List[int]) -> None:
        """Raises OSError with the call's error."""
        if name == "kill":
            self._kill_child(arguments[0], arguments[1])
            return
        target = _open_target(name, thread, arguments)
        try:
            # If the thread has ended, its number can be another's by now.
            fcntl.ioctl(self.listener, SECCOMP_IOCTL_NOTIF_ID_VALID, struct.pack("=Q", call_id))
            # What follows changes the file that is checked, also if another has its name by then.
            path = f"/proc/self/fd/{target}"
            self._check_location(os.readlink(path))
            values = arguments[1:] if name in CALLS_WITHOUT_FOLDER else arguments[2:]
            if name in ("chmod", "fchmod", "fchmodat"):
                _change_mode(path, values[0])
            elif name in ("chown", "fchown", "fchownat"):
                os.chown(path, _to_id(values[0]), _to_id(values[1]))
            else:
                _change_times(path, thread, values[0], 1000 if name == "utimes" else 1)
        finally:
            os.close(target)

    def _check_location(self, path: str) -> None:
        """path: where the kernel says that the file is."""
        if not any(path == folder or path.startswith(folder + "/") for folder in self.folders):
            raise PermissionError(errno.EPERM, "not in a folder of --write")

    def _kill_child(self, pid: int, signum: int) -> None:
        """Of the processes outside, the guest's kernel may signal its children."""
        pidfd = os.pidfd_open(_to_int(pid))  # this process, also if another gets its PID
        try:
            with open(f"/proc/{_to_int(pid)}/stat", encoding="ascii", errors="replace") as file:
                parent = int(file.read().rpartition(")")[2].split()[1])
            if parent != self.guest_pid:
                raise PermissionError(errno.EPERM, "not a child")
            signal.pidfd_send_signal(pidfd, _to_int(signum))
        finally:
            os.close(pidfd)


def _open_target(name: str, thread: int, arguments: List[int]) -> int:
    """A descriptor (O_PATH) of the file that the call names."""
    first, second = arguments[:2]
    if name in ("fchmod", "fchown") or (name == "utimensat" and not second):
        return _open_link(thread, f"fd/{_to_int(first)}")
    if name in CALLS_WITHOUT_FOLDER:
        folder, path, flags = AT_FDCWD, _read_string(thread, first), 0
    else:
        folder, path = _to_int(first), _read_string(thread, second)
        # fchmodat() has no flags.
        flags = {"fchownat": arguments[4], "utimensat": arguments[3]}.get(name, 0)
    if flags & ~AT_SYMLINK_NOFOLLOW & 0xFFFFFFFF:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    link = SELF_FD.fullmatch(path)
    if link:  # in the process, not in this one
        return _open_link(thread, os.fsdecode(link[1]))
    folder_fd = _open_link(thread, "cwd" if folder == AT_FDCWD else f"fd/{folder}")
    try:
        return _open_path(folder_fd, path, os.O_NOFOLLOW if flags else 0)
    finally:
        os.close(folder_fd)


def _open_link(thread: int, link: str) -> int:
    """What a link in a folder of /proc leads to."""
    return os.open(f"/proc/{thread}/{link}", os.O_PATH | os.O_CLOEXEC)


def _open_path(folder_fd: int, path: bytes, flags: int) -> int:
    """The file, whatever its permissions. The links of /proc are not followed."""
    flags |= os.O_PATH | os.O_CLOEXEC
    open_how = struct.pack("=QQQ", flags, 0, RESOLVE_NO_MAGICLINKS)
    size = ctypes.c_size_t(len(open_how))
    fd = int(_libc.syscall(SYS_OPENAT2, folder_fd, path, open_how, size))
    if fd < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return fd


def _read_memory(thread: int, address: int, size: int) -> bytes:
    with open(f"/proc/{thread}/mem", "rb", buffering=0) as file:
        file.seek(address)
        return file.read(size)


def _read_string(thread: int, address: int) -> bytes:
    """A path in the memory of the process."""
    data = _read_memory(thread, address, PATH_MAX)  # less, if it ends at the last mapped page
    text, end, _ = data.partition(b"\0")
    if not end:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
    return text


def _change_mode(path: str, mode: int) -> None:
    """Set the mode. The setgid bit of a folder is for the group of new files, and gives no rights."""
    is_folder = stat.S_ISDIR(os.stat(path).st_mode)
    if mode & stat.S_ISUID or (mode & stat.S_ISGID and not is_folder):
        raise PermissionError(errno.EPERM, "setuid")
    os.chmod(path, mode & 0o7777)


def _change_times(path: str, thread: int, address: int, unit_ns: int) -> None:
    """address: of two times, each of seconds and units; 0: now."""
    if not address:
        os.utime(path)
        return
    data = _read_memory(thread, address, TIMES.size)
    if len(data) < TIMES.size:
        raise OSError(errno.EFAULT, os.strerror(errno.EFAULT))
    fields = TIMES.unpack(data)
    status = os.stat(path)
    times = []
    for seconds, units, old in (
        (fields[0], fields[1], status.st_atime_ns),
        (fields[2], fields[3], status.st_mtime_ns),
    ):
        if unit_ns == 1 and units == UTIME_OMIT:
            times.append(old)
        elif unit_ns == 1 and units == UTIME_NOW:
            times.append(time.time_ns())
        else:
            times.append(seconds * 1_000_000_000 + units * unit_ns)
    os.utime(path, ns=(times[0], times[1]))


def _to_int(argument: int) -> int:
    """The low word of an argument, as an int of C."""
    return int(ctypes.c_int(argument & 0xFFFFFFFF).value)


def _to_id(argument: int) -> int:
    """A user or group; -1: it stays."""
    return -1 if argument & 0xFFFFFFFF == NO_ID else argument & 0xFFFFFFFF
