#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""A guest with a disk, which boots several times.

machine.py disk ROOT FOLDER [FILE...]: makes a disk in FOLDER with the files of ROOT, the modules of the
release's kernel, and these files in /checks.
machine.py boot FOLDER NUMBER: boots the guest, with "boot=NUMBER" in its kernel's command line, until
it ends or restarts. Prints the output of its port "tap". After half an hour, or without output, also
prints the end of its console, and fails.

softrdma's guests share the host's files and have softrdma as process 1. This guest boots as a machine.
"""

import os
import shutil
import subprocess
import sys
from typing import List

BOOT_FOLDER = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(BOOT_FOLDER, "..", "..", "..", "..", "scripts"))
sys.dont_write_bytecode = True

from lab.debian import packages  # noqa: E402
from lab.kernel import debian_kernels  # noqa: E402
from lab.run import initramfs, qemu  # noqa: E402
from lab.core.errors import LabError  # noqa: E402

TIMEOUT_SECONDS = 1800
BOOT_MODULES = ("virtio_pci", "virtio_blk", "ext4")
INIT = b"""#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t devtmpfs dev /dev
for module in /modules/*; do insmod "$module"; done
until mount -t ext4 /dev/vda /root 2>/dev/null; do sleep 0.1; done
mount -o move /dev /root/dev
exec switch_root /root /sbin/init
"""


def make_disk(root: str, folder: str, files: List[str]) -> None:
    """Makes FOLDER/disk and FOLDER/initrd."""
    kernel = debian_kernels.get_kernel(packages.machine_arch(), None)
    modules = os.path.join(root, "usr", "lib", "modules", kernel.release)
    shutil.copytree(kernel.modules, modules, symlinks=True)
    os.mkdir(os.path.join(root, "checks"))
    for file in files:
        shutil.copy(file, os.path.join(root, "checks"))
    path = os.path.join(folder, "disk")
    features = ["-O", "^has_journal,^metadata_csum"]
    subprocess.run(["mke2fs", "-q", "-t", "ext4", *features, "-d", root, path, "3G"], check=True)
    archive = initramfs.CpioArchive(os.path.join(folder, "initrd"))
    for name in ("bin", "dev", "modules", "root"):
        archive.add(name, 0o040755)
    archive.add("dev/console", 0o020600, device=(5, 1))
    with open(os.path.join(kernel.path, "busybox"), "rb") as busybox:
        archive.add("bin/busybox", 0o100755, busybox.read())
    for number, module in enumerate(initramfs.boot_module_paths(kernel, BOOT_MODULES)):
        archive.add(f"modules/{number:02d}", 0o100644, initramfs.read_module(module))
    archive.add("init", 0o100755, INIT)
    archive.close()


def boot(folder: str, number: str) -> int:
    """Returns the exit status: 0 if the guest has ended by itself, with output."""
    kernel = debian_kernels.get_kernel(packages.machine_arch(), None)
    machine = qemu.MACHINES[kernel.arch]
    tap, console = (os.path.join(folder, f"{name}-{number}") for name in ("tap", "console"))
    kernel_options = f"console={machine.console} panic=-1 oops=panic root=/dev/vda rw boot={number}"
    argv = [
        *[qemu.find_emulator(kernel.arch), "-nodefaults", "-no-user-config", "-display", "none"],
        *["-no-reboot", *machine.options, "-accel", "tcg,thread=multi"],
        *["-cpu", machine.emulated_cpu + machine.disabled_cpu_flags, "-smp", "2", "-m", "1024"],
        *["-kernel", os.path.join(kernel.path, "vmlinuz")],
        *["-initrd", os.path.join(folder, "initrd"), "-append", kernel_options],
        *["-drive", f"file={os.path.join(folder, 'disk')},format=raw,if=virtio,cache=unsafe"],
        *["-serial", f"file:{console}", "-device", "virtio-serial-pci"],
        *["-chardev", f"file,id=tap,path={tap}"],
        *["-device", "virtserialport,chardev=tap,name=tap"],
    ]
    try:
        status = subprocess.run(argv, stdin=subprocess.DEVNULL, timeout=TIMEOUT_SECONDS).returncode
    except subprocess.TimeoutExpired:
        status = 1
        print(f"# the guest did not end within {TIMEOUT_SECONDS} s")
    with open(tap, encoding="utf-8", errors="replace") as file:
        text = file.read()
    print(text, end="")
    if status or not text:
        with open(console, encoding="utf-8", errors="replace") as file:
            print("".join("# " + line for line in file.read().splitlines(True)[-30:]))
    return status or not text


if __name__ == "__main__":
    try:
        if sys.argv[1] == "disk":
            make_disk(sys.argv[2], sys.argv[3], sys.argv[4:])
        else:
            sys.exit(boot(*sys.argv[2:]))
    except LabError as problem:
        print(problem)
        sys.exit(problem.status)
