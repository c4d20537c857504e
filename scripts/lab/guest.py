# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`run` in a QEMU guest: the caller's files and folder, another kernel."""

import json
import os
import socket
from typing import Any, Dict, List, Optional

from . import initramfs, jobs, keeper, kernels, packages, qemu, roots, say, siw
from .errors import LabError
from .qemu import Share
from .relay import NeverStarted, Relay

BOOT_SECONDS = {"kvm": 10.0, "tcg": 120.0}


def run(
    drivers: List[str],
    hosts: int,
    argv: List[str],
    arch: str,
    wanted: Optional[str],
    suite: Optional[str],
    writable: List[str],
    memory: int,
    launcher: str,
) -> int:
    qemu.program(arch)
    kernel = kernels.get(arch, wanted, suite)
    if "siw" in drivers:
        siw.add(kernel)
    shares = _shares(kernel, suite, writable, launcher)
    job = jobs.make(drivers, hosts, argv)
    for accelerator in qemu.accelerators(arch):
        try:
            return _boot(kernel, accelerator, shares, memory, job, launcher)
        except NeverStarted:
            if accelerator != "kvm":
                raise
            qemu.remember_kvm("hangs")
            say.note("KVM is there but does not start a guest; emulating instead")
    raise LabError("no accelerator started the guest")


def _boot(
    kernel: kernels.Kernel,
    accelerator: str,
    shares: List[Share],
    memory: int,
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
                kernel,
                accelerator,
                initrd,
                console,
                shares,
                memory,
                theirs.fileno(),
                file.fileno(),
            )
        undo.callback(process.wait)
        undo.callback(process.kill)
        theirs.close()
        return Relay(
            process, ours, BOOT_SECONDS[accelerator], job["terminal"], [log, console], undo
        ).run()


def _shares(
    kernel: kernels.Kernel, suite: Optional[str], writable: List[str], launcher: str
) -> List[Share]:
    modules = Share("modules", "ro", kernel.modules, f"/lib/modules/{kernel.release}")
    if kernel.arch == packages.machine_arch() and not suite:
        shares = [Share("root", "ro", "/", "/"), modules]
    else:
        suite = suite or kernel.suite.removesuffix("-backports")
        shares = [Share("root", "ro", roots.get(kernel.arch, suite), "/"), modules]
        # The caller's files, and this program's own.
        places = [os.getcwd(), os.path.dirname(launcher), os.path.dirname(initramfs.GUEST)]
        for number, place in enumerate(dict.fromkeys(places)):
            if place == "/" or place.startswith(("/usr/bin", "/usr/lib")):
                continue
            shares.append(Share(f"files{number}", "ro", place, place))
    folders = enumerate(jobs.writable_folders(writable))
    return shares + [Share(f"write{number}", "rw", path, path) for number, path in folders]


def _files(job: Dict[str, Any], shares: List[Share], launcher: str) -> Dict[str, bytes]:
    lines = [f"{share.tag} {share.mode} {share.place}\n" for share in shares]
    return {
        "job.json": json.dumps(job).encode(),
        "shares": "".join(lines).encode(),
        "launcher": launcher.encode(),
    }
