# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`run` in a QEMU guest: the caller's files and folder, another kernel."""

import json
import os
import socket
from typing import Any, Dict, List

from . import caller, initramfs, jobs, keeper, kernels, packages, qemu, roots, say, siw
from .errors import LabError
from .lines import Guest, NeverStarted
from .qemu import Share
from .relay import Relay

BOOT_SECONDS = {"kvm": 10.0, "tcg": 120.0}


def run(ask: jobs.Ask) -> int:
    qemu.program(ask.arch)
    kernel = kernels.get(ask.arch, ask.kernel, ask.suite)
    if "siw" in ask.drivers:
        siw.add(kernel)
    shares = _shares(kernel, ask)
    order = caller.order(ask.argv)
    for accelerator in qemu.accelerators(ask.arch):
        try:
            return _boot(kernel, accelerator, shares, order, ask)
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
    order: Dict[str, Any],
    ask: jobs.Ask,
) -> int:
    with keeper.Undo() as undo:
        scratch = keeper.scratch(undo)
        initrd, console, log = (
            os.path.join(scratch, name) for name in ("initrd", "console", "qemu")
        )
        initramfs.write(initrd, kernel, _files(ask, shares))
        ours, theirs = socket.socketpair()
        with open(log, "wb") as file:
            process = qemu.start(
                kernel,
                accelerator,
                initrd,
                console,
                shares,
                ask.memory,
                theirs.fileno(),
                file.fileno(),
            )
        undo.callback(process.wait)
        undo.callback(process.kill)
        theirs.close()
        guest = Guest(process, ours, BOOT_SECONDS[accelerator], [log, console])
        return Relay([guest], order, undo).run()


def _shares(kernel: kernels.Kernel, ask: jobs.Ask) -> List[Share]:
    modules = Share("modules", "ro", kernel.modules, f"/lib/modules/{kernel.release}")
    if kernel.arch == packages.machine_arch() and not ask.suite:
        shares = [Share("root", "ro", "/", "/"), modules]
    else:
        suite = ask.suite or kernel.suite.removesuffix("-backports")
        shares = [Share("root", "ro", roots.get(kernel.arch, suite), "/"), modules]
        # The caller's files, and this program's own.
        places = [os.getcwd(), os.path.dirname(ask.launcher), os.path.dirname(initramfs.GUEST)]
        for number, place in enumerate(dict.fromkeys(places)):
            if place == "/" or place.startswith(("/usr/bin", "/usr/lib")):
                continue
            shares.append(Share(f"files{number}", "ro", place, place))
    folders = enumerate(jobs.writable_folders(ask.writable))
    return shares + [Share(f"write{number}", "rw", path, path) for number, path in folders]


def _files(ask: jobs.Ask, shares: List[Share]) -> Dict[str, bytes]:
    lines = [f"{share.tag} {share.mode} {share.place}\n" for share in shares]
    return {
        "job.json": json.dumps(jobs.told(ask)).encode(),
        "shares": "".join(lines).encode(),
        "launcher": ask.launcher.encode(),
    }
