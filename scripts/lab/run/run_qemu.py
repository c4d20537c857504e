# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`run` in a QEMU guest, which has the caller's files and folder but another kernel."""

import json
import os
import socket
from typing import Dict, List

from .. import LAB_DIR
from ..core import progress, run_request, supervisor, temporary_folders
from ..core.errors import LabError
from ..core.run_request import RunRequest
from ..debian import packages, rootfs
from ..kernel import debian_kernels, siw_module
from ..kernel.debian_kernels import Kernel
from ..protocol.stdio_client import CommandSpec, make_command_spec
from . import dry_run, initramfs, qemu
from .guest_session import GuestNotStarted, GuestSession
from .log_pipe import LogPipe
from .qemu import Share
from .relay import Relay

BOOT_TIMEOUT_SECONDS = {"kvm": 10.0, "tcg": 120.0}


def run(request: RunRequest) -> int:
    """Returns the command's exit status."""
    qemu.find_emulator(request.arch)
    kernel = debian_kernels.get_kernel(request.arch, request.kernel, request.suite)
    if "siw" in request.drivers:
        siw_module.add_to_kernel(kernel)
    shares = _make_shares(kernel, request)
    spec = make_command_spec(request.argv)
    for accelerator in qemu.usable_accelerators(request.arch):
        try:
            return _run_guest(kernel, accelerator, shares, spec, request)
        except GuestNotStarted:
            if accelerator != "kvm":
                raise
            qemu.record_kvm_failure()
            progress.note("KVM exists but does not start a guest; emulating instead")
    raise LabError("no accelerator started the guest")


def _run_guest(
    kernel: Kernel,
    accelerator: str,
    shares: List[Share],
    spec: CommandSpec,
    request: RunRequest,
) -> int:
    """Run the command in a new guest. Raises GuestNotStarted if the accelerator does not work."""
    with supervisor.Undo() as undo:
        folder = temporary_folders.make_run_folder(undo)
        initrd = os.path.join(folder, "initrd")
        console, log = LogPipe(), LogPipe()  # of the guest's kernel, and of QEMU
        initramfs.write_initramfs(initrd, kernel, _guest_files(kernel, request, shares))
        connection, guest_end = socket.socketpair()
        inherited_fds = [guest_end.fileno(), console.write_end]
        argv = qemu.make_argv(
            kernel, accelerator, initrd, console.write_end, shares, request, guest_end.fileno()
        )
        if request.dry_run:
            return dry_run.print_commands("qemu", [argv], request)
        process, broker = qemu.start_guest(argv, accelerator, shares, inherited_fds, log.write_end)
        undo.callback(console.append_to, request.console, 1)
        undo.callback(process.wait)
        undo.callback(process.kill)
        guest_end.close()
        console.close_write_end()
        log.close_write_end()
        timeout = BOOT_TIMEOUT_SECONDS[accelerator]
        guest = GuestSession(process, connection, timeout, [log, console], broker=broker)
        return Relay([guest], spec, undo, num_hosts=request.hosts).run()


def _make_shares(kernel: Kernel, request: RunRequest) -> List[Share]:
    """The folders that the guest mounts: a root, this machine's if its programs can run there."""
    modules = Share("modules", "ro", kernel.modules, f"/lib/modules/{kernel.release}")
    if kernel.arch == packages.machine_arch() and not request.suite:
        shares = [Share("root", "ro", "/", "/"), modules]
    else:
        suite = request.suite or kernel.suite.removesuffix("-backports")
        root = rootfs.get_rootfs(kernel.arch, suite)
        shares = [Share("root", "ro", root, "/"), modules]
        # The current folder, and softrdma itself.
        folders = [os.getcwd(), os.path.dirname(request.launcher), LAB_DIR]
        for number, folder in enumerate(dict.fromkeys(folders)):
            if folder == "/" or folder.startswith(("/usr/bin", "/usr/lib")):
                continue
            shares.append(Share(f"files{number}", "ro", folder, folder))
    writable = enumerate(run_request.absolute_folders(request.writable_folders))
    return shares + [Share(f"write{number}", "rw", path, path) for number, path in writable]


def _guest_files(kernel: Kernel, request: RunRequest, shares: List[Share]) -> Dict[str, bytes]:
    """The files that guest/init reads."""
    lines = [f"{share.tag} {share.mode} {share.guest_path}\n" for share in shares]
    job = run_request.guest_job(request, siw_module.all_missing_patches(kernel))
    return {
        "job.json": json.dumps(job).encode(),
        "shares": "".join(lines).encode(),
        "launcher": request.launcher.encode(),
    }
