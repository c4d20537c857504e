# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Process 1 of a guest: makes a running system of its root, and starts the agent.

qemu  guest/init made the root, with /dev, /proc, /sys and /run.
uml   The root is the host's, read-only: a tmpfs overlay is mounted over it.

Processes and system calls are much slower in a guest, so this process starts no
other program.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import shutil
import signal
import socket
import struct
import time
from typing import Any, Dict, Optional

from ..core.run_request import ClusterMember, host_name
from . import agent, host_setup

MS_BIND, MS_MOVE = 4096, 8192
RB_POWER_OFF = 0x4321FEDC
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
OVERLAY_FOLDER = "/mnt"  # any folder that exists on every system
UML_CONNECTION = "dev/ttyS0"
# Longer than softrdma needs to read the exit status and to kill the guest.
POWER_OFF_SECONDS = 5.0

_libc = ctypes.CDLL(None, use_errno=True)


def main(kind: str, job_path: str) -> int:
    """The kernel of a guest starts it: `softrdma guest KIND JOB`."""
    # The kernel delivers to process 1 only signals with a handler. Python has one for SIGINT, which would
    # end the guest.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with open(job_path, encoding="utf-8") as file:
        job: Dict[str, Any] = json.load(file)
    try:
        if kind == "uml":
            _enter_overlay(job)
        _mount_system()
        socket.sethostname(_host_name(job))
    except OSError as problem:
        agent.send_line(f"fail {problem}")
        raise
    child = os.fork()
    if child == 0:
        os._exit(agent.run(lambda: host_setup.set_up(job)))
    while os.wait()[0] != child:  # also reaps orphans
        pass
    os.sync()
    time.sleep(POWER_OFF_SECONDS)
    _libc.reboot(RB_POWER_OFF)
    return 1


def _host_name(job: Dict[str, Any]) -> str:
    return host_name(ClusterMember(*job["member"]).number) if job["member"] else "softrdma"


def _enter_overlay(job: Dict[str, Any]) -> None:
    """Change the root to a tmpfs overlay over the host's files, and connect to softrdma."""
    root = OVERLAY_FOLDER + "/root"
    _mount("tmpfs", OVERLAY_FOLDER, "mode=755")
    for name in ("files", "work", "root"):
        os.mkdir(f"{OVERLAY_FOLDER}/{name}")
    layers = f"lowerdir=/,upperdir={OVERLAY_FOLDER}/files,workdir={OVERLAY_FOLDER}/work"
    _mount("overlay", root, layers)
    os.chdir(root)
    for folder, fs_type in (
        ("dev", "devtmpfs"),
        ("proc", "proc"),
        ("sys", "sysfs"),
        ("run", "tmpfs"),
    ):
        os.makedirs(folder, exist_ok=True)
        _mount(fs_type, folder, "mode=755" if fs_type == "tmpfs" else "")
    connection = os.open(UML_CONNECTION, os.O_RDWR | os.O_NOCTTY)
    if connection != agent.CONNECTION_FD:
        os.dup2(connection, agent.CONNECTION_FD, inheritable=False)
        os.close(connection)
    agent.make_connection_raw()
    agent.send_line("hello")
    os.mkdir("." + agent.SPOOL_FOLDER)
    _mount("hostfs", "." + agent.SPOOL_FOLDER, job["spool"])
    for folder in job["write"]:
        _mount("hostfs", "." + folder, folder)
    release = os.uname().release
    os.makedirs("lib/modules", exist_ok=True)
    modules, target = f"{job['modules']}/{release}", f"lib/modules/{release}"
    if os.path.islink(target):
        os.unlink(target)
    if os.path.isdir(
        target
    ):  # of a kernel of the host with that name; its folder cannot be replaced
        _mount("." + modules, target, flags=MS_BIND)
    else:
        os.symlink(modules, target)
    # The /proc/cpuinfo of user mode lacks the clock rate, which perftest reads. Programs run on the
    # host's processor, so show what the host has.
    with open("run/cpuinfo", "w", encoding="utf-8") as file:
        file.write(job["cpuinfo"])
    _mount("run/cpuinfo", "proc/cpuinfo", flags=MS_BIND)
    _mount(".", "/", flags=MS_MOVE)
    os.chroot(".")
    os.chdir("/")


def _mount_system() -> None:
    """Mount what programs expect, and set lo up."""
    for folder in ("/dev/pts", "/dev/shm", "/dev/mqueue"):
        os.makedirs(folder, exist_ok=True)
    _mount("devpts", "/dev/pts", "mode=620,ptmxmode=666")
    _mount("tmpfs", "/dev/shm", "mode=1777")
    _mount("mqueue", "/dev/mqueue")
    _mount("cgroup2", "/sys/fs/cgroup")
    _mount("debugfs", "/sys/kernel/debug")
    for name, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        with contextlib.suppress(FileExistsError):
            os.symlink("/proc/self/fd" + target, "/dev/" + name)
    _cover_hosts_file()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ioctl_socket:
        request = struct.pack("16sh22x", b"lo", 0)
        (flags,) = struct.unpack_from("h", fcntl.ioctl(ioctl_socket, SIOCGIFFLAGS, request), 16)
        fcntl.ioctl(ioctl_socket, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", flags | IFF_UP))


def _cover_hosts_file() -> None:
    """Mount a copy over /etc/hosts if /etc is not the guest's own, but a folder of --write: names are added to it."""
    if os.path.isfile("/etc/hosts") and os.stat("/etc").st_dev != os.stat("/").st_dev:
        with open(host_setup.HOSTS_COPY, "w", encoding="ascii"):
            pass
        with contextlib.suppress(PermissionError):  # of the caller
            shutil.copyfile("/etc/hosts", host_setup.HOSTS_COPY)
        _mount(host_setup.HOSTS_COPY, "/etc/hosts", flags=MS_BIND)


def _mount(source: str, target: str, options: str = "", flags: int = 0) -> None:
    """source: a file system type; with flags, the folder to bind or to move."""
    fs_type: Optional[bytes] = None if flags else source.encode()
    if _libc.mount(source.encode(), target.encode(), fs_type, flags, options.encode()) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)
