# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`run` in a QEMU guest: the caller's files and folder, another kernel."""

import json
import os
import socket
from typing import Any, Dict, List, Optional

from . import initramfs, keeper, kernels, packages, qemu, roots, say, siw
from .errors import LabError, Misuse
from .qemu import Share
from .relay import NeverStarted, Relay

BOOT_SECONDS = {"kvm": 10.0, "tcg": 120.0}
WINDOW = 1 << 18
PYTHON = "/usr/bin/python3"


def run(
    drivers: List[str],
    hosts: int,
    argv: List[str],
    arch: str,
    wanted: Optional[str],
    writable: List[str],
    launcher: str,
) -> int:
    qemu.program(arch)
    kernel = kernels.get(arch, wanted)
    if "siw" in drivers:
        siw.add(kernel)
    shares = _shares(kernel, writable, launcher)
    job = make_job(drivers, hosts, argv)
    for accelerator in qemu.accelerators(arch):
        try:
            return _boot(kernel, accelerator, shares, job, launcher)
        except NeverStarted:
            if accelerator != "kvm":
                raise
            qemu.remember_kvm("hangs")
            say.note("KVM is there but does not start a guest; emulating instead")
    raise LabError("no accelerator started the guest")


def make_job(drivers: List[str], hosts: int, argv: List[str]) -> Dict[str, Any]:
    """What the agent in a guest is told."""
    terminal = all(os.isatty(stream) for stream in (0, 1, 2))
    return {
        "argv": argv,
        "env": dict(os.environ),
        "cwd": os.getcwd(),
        "drivers": drivers,
        "hosts": hosts,
        "terminal": terminal,
        "size": tuple(os.get_terminal_size(0)) if terminal else None,
    }


def agent_command(launcher: str, job_path: str) -> str:
    return f"{PYTHON} -IS '{launcher}' guest-agent {job_path}"


def _boot(
    kernel: kernels.Kernel,
    accelerator: str,
    shares: List[Share],
    job: Dict[str, Any],
    launcher: str,
) -> int:
    with keeper.Undo() as undo:
        scratch = keeper.scratch(undo)
        initrd, console, log = (
            os.path.join(scratch, name) for name in ("initrd", "console", "qemu")
        )
        initramfs.write(initrd, kernel, _files(job, shares, launcher))
        ours, theirs = socket.socketpair()
        with open(log, "wb") as file:
            process = qemu.start(
                kernel, accelerator, initrd, console, shares, theirs.fileno(), file.fileno()
            )
        undo.callback(process.wait)
        undo.callback(process.kill)
        theirs.close()
        return Relay(
            process, ours, BOOT_SECONDS[accelerator], job["terminal"], [log, console], WINDOW, undo
        ).run()


def _shares(kernel: kernels.Kernel, writable: List[str], launcher: str) -> List[Share]:
    modules = Share("modules", "ro", kernel.modules, f"/lib/modules/{kernel.release}")
    if kernel.arch == packages.machine_arch():
        shares = [Share("root", "ro", "/", "/"), modules]
    else:
        suite = kernel.suite.removesuffix("-backports")
        shares = [Share("root", "ro", roots.get(kernel.arch, suite), "/"), modules]
        # The caller's files, and this program's own.
        places = [os.getcwd(), os.path.dirname(launcher), os.path.dirname(initramfs.GUEST)]
        for number, place in enumerate(dict.fromkeys(places)):
            if place == "/" or place.startswith(("/usr/bin", "/usr/lib")):
                continue
            shares.append(Share(f"files{number}", "ro", place, place))
    return shares + writable_shares(writable)


def writable_shares(writable: List[str]) -> List[Share]:
    shares = []
    for number, place in enumerate(writable):
        path = os.path.abspath(place)
        if not os.path.isdir(path):
            raise Misuse(f"--write {place}: there is no such folder")
        if path == "/" or "\n" in path:
            raise Misuse(f"--write {place}: name a folder below /")
        shares.append(Share(f"write{number}", "rw", path, path))
    return shares


def _files(job: Dict[str, Any], shares: List[Share], launcher: str) -> Dict[str, bytes]:
    lines = [f"{share.tag} {share.mode} {share.place}\n" for share in shares]
    command = agent_command(launcher, "/run/softrdma.guest/job.json")
    return {
        "job.json": json.dumps(job).encode(),
        "shares": "".join(lines).encode(),
        "command": command.encode(),
    }
