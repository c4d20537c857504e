# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`run` in user mode: the kernel as an ordinary process, with rxe and siw built in.

No QEMU, no KVM, no module, no root: programs run at the processor's own
speed, and the kernel takes their system calls. It does so by seccomp, or by
ptrace, slower and on one processor, where seccomp is refused.
"""

import json
import os
import socket
import subprocess
from typing import Any, Dict, List, Optional

from . import jobs, keeper, say, umlkernel
from .errors import CannotHere
from .relay import NeverStarted, Relay

MEMORY_ROOM = 1_000_000_000  # of it, what runs of tests have been seen to use, and more
BOOT_SECONDS = 60.0  # by ptrace, and beside builds, it has been seen to take more than 20
LINE = 3  # where the kernel finds its end of the line


def run(
    drivers: List[str],
    hosts: int,
    argv: List[str],
    wanted: Optional[str],
    writable: List[str],
    memory: int,
    launcher: str,
) -> int:
    kernel = umlkernel.get(wanted)
    job = jobs.make(drivers, hosts, argv)
    try:
        processors = min(os.cpu_count() or 1, umlkernel.processors(kernel))
        return _boot(kernel, "on", processors, job, writable, memory, launcher)
    except NeverStarted as first:
        say.note("no user-mode kernel by seccomp here; trying ptrace")
        try:
            return _boot(kernel, "off", 1, job, writable, memory, launcher)
        except NeverStarted:
            raise first from None


def _boot(
    kernel: str,
    seccomp: str,
    processors: int,
    job: Dict[str, Any],
    writable: List[str],
    memory: int,
    launcher: str,
) -> int:
    with keeper.Undo() as undo:
        scratch = keeper.scratch(undo)
        console = os.path.join(scratch, "console")
        # The line is a terminal to the guest's kernel, which loses input beyond 4096 bytes.
        spool = os.path.join(scratch, "spool")
        os.mkdir(spool)
        facts = {
            "spool": spool,
            "write": jobs.writable_folders(writable),
            "cpuinfo": _cpuinfo(processors),
            "modules": os.path.join(kernel, "lib", "modules"),
        }
        job_path = os.path.join(scratch, "job.json")
        with open(job_path, "w", encoding="utf-8") as file:
            json.dump({**job, **facts}, file)
        ours, theirs = socket.socketpair()
        words = [
            os.path.join(kernel, umlkernel.PROGRAM),
            f"mem={memory}M",
            f"ncpus={processors}",
            f"seccomp={seccomp}",
        ]
        words += [
            "root=none",
            "rootfstype=hostfs",
            "rootflags=/",
            "ro",
            "quiet",
            "panic=-1",
            "oops=panic",
        ]
        words += ["con=null", "con0=null,fd:1", "ssl=null", f"ssl0=fd:{LINE},fd:{LINE}"]
        words += [
            f"uml_dir={scratch}/uml",
            f'init="{launcher}"',
            *("--", "guest", "uml", f'"{job_path}"'),
        ]
        env = dict(os.environ, TMPDIR=_memory_folder(scratch))
        end = theirs.fileno()

        def become() -> None:
            keeper.die_with_parent()
            os.dup2(end, LINE)

        with open(console, "wb") as log:
            process = subprocess.Popen(
                words, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                pass_fds=[LINE], preexec_fn=become, process_group=0,
            )  # fmt: skip
        undo.callback(keeper.end_children)  # each of the guest's programs is a process of ours
        undo.callback(process.kill)
        theirs.close()
        return Relay(process, ours, BOOT_SECONDS, job["terminal"], [console], undo, spool).run()


def _cpuinfo(processors: int) -> str:
    """The host's own words on as many processors as the guest has."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        blocks = file.read().strip().split("\n\n")
    return "\n\n".join(blocks[:processors]) + "\n\n"


def _memory_folder(scratch: str) -> str:
    """Where the guest's memory is a file: in memory, if that will do. It is mapped executable."""
    for folder in ("/dev/shm", scratch):
        try:
            state = os.statvfs(folder)
        except OSError:
            continue
        room = state.f_bavail * state.f_frsize >= MEMORY_ROOM
        if room and not state.f_flag & os.ST_NOEXEC and os.access(folder, os.W_OK):
            return folder
    raise CannotHere(
        f"a user-mode kernel needs a folder with {say.megabytes(MEMORY_ROOM)} of room that is not mounted noexec, "
        f"and neither /dev/shm nor {os.path.dirname(scratch)} is one; set TMPDIR to one"
    )
