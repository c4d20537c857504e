# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Process 1 of a guest: makes its root a running system, and keeps the agent.

qemu  The root is there (guest/init made it), with /dev, /proc, /sys and /run.
uml   The root is the host's own, read-only: a layer of memory goes over it.

Processes and system calls cost a guest far more than its host, so this is one
program, and it starts no other.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import signal
import socket
import struct
import time
from typing import Any, Dict, Optional

from . import agent, here
from .jobs import Place

MS_BIND, MS_MOVE = 4096, 8192
RB_POWER_OFF = 0x4321FEDC
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
OVER = "/mnt"  # any folder there is on every system
LINE_OF_UML = "dev/ttyS0"
# Longer than the host needs to hear of the status and to end us.
FAREWELL_SECONDS = 5.0

_libc = ctypes.CDLL(None, use_errno=True)


def main(kind: str, job_path: str) -> int:
    """What a guest's kernel starts: `softrdma guest KIND JOB`."""
    # No signal without a handler ends process 1; Python has one, and its children would have none.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with open(job_path, encoding="utf-8") as file:
        job: Dict[str, Any] = json.load(file)
    try:
        if kind == "uml":
            _enter_layer(job)
        _mount_system()
        socket.sethostname(_name(job))
    except OSError as problem:
        agent.say(f"fail {problem}")
        raise
    child = os.fork()
    if child == 0:
        os._exit(agent.serve(lambda: here.settle(job)))
    while os.wait()[0] != child:  # orphans come to us
        pass
    os.sync()
    time.sleep(FAREWELL_SECONDS)
    _libc.reboot(RB_POWER_OFF)
    return 1


def _name(job: Dict[str, Any]) -> str:
    return f"softrdma-{Place(*job['place']).number}" if job["place"] else "softrdma"


def _enter_layer(job: Dict[str, Any]) -> None:
    """Make the root a layer of memory over the host's files, and say hello on the way."""
    root = OVER + "/root"
    _mount("tmpfs", OVER, "mode=755")
    for name in ("files", "work", "root"):
        os.mkdir(f"{OVER}/{name}")
    _mount("overlay", root, f"lowerdir=/,upperdir={OVER}/files,workdir={OVER}/work")
    os.chdir(root)
    for place, kind in (("dev", "devtmpfs"), ("proc", "proc"), ("sys", "sysfs"), ("run", "tmpfs")):
        os.makedirs(place, exist_ok=True)
        _mount(kind, place, "mode=755" if kind == "tmpfs" else "")
    line = os.open(LINE_OF_UML, os.O_RDWR | os.O_NOCTTY)
    if line != agent.LINE:
        os.dup2(line, agent.LINE, inheritable=False)
        os.close(line)
    agent.make_raw()
    agent.say("hello")
    os.mkdir("." + agent.SPOOL)
    _mount("hostfs", "." + agent.SPOOL, job["spool"])
    for place in job["write"]:
        _mount("hostfs", "." + place, place)
    release = os.uname().release
    os.makedirs("lib/modules", exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.symlink(f"{job['modules']}/{release}", f"lib/modules/{release}")
    # User mode has no line of its own for the clock rate, which perftest reads.
    # The processor is the host's, so is what there is to say of it.
    with open("run/cpuinfo", "w", encoding="utf-8") as file:
        file.write(job["cpuinfo"])
    _mount("run/cpuinfo", "proc/cpuinfo", flags=MS_BIND)
    _mount(".", "/", flags=MS_MOVE)
    os.chroot(".")
    os.chdir("/")


def _mount_system() -> None:
    """What programs expect of a running system."""
    for place in ("/dev/pts", "/dev/shm", "/dev/mqueue"):
        os.makedirs(place, exist_ok=True)
    _mount("devpts", "/dev/pts", "mode=620,ptmxmode=666")
    _mount("tmpfs", "/dev/shm", "mode=1777")
    _mount("mqueue", "/dev/mqueue")
    _mount("cgroup2", "/sys/fs/cgroup")
    _mount("debugfs", "/sys/kernel/debug")
    for name, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        with contextlib.suppress(FileExistsError):
            os.symlink("/proc/self/fd" + target, "/dev/" + name)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        lo = struct.pack("16sh22x", b"lo", 0)
        (flags,) = struct.unpack_from("h", fcntl.ioctl(any_socket, SIOCGIFFLAGS, lo), 16)
        up = struct.pack("16sh22x", b"lo", flags | IFF_UP)
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, up)


def _mount(what: str, place: str, options: str = "", flags: int = 0) -> None:
    """what: a kind of file system, or with flags the place to bind or to move."""
    kind: Optional[bytes] = None if flags else what.encode()
    if _libc.mount(what.encode(), place.encode(), kind, flags, options.encode()) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), place)
