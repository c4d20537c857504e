# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The initramfs of a QEMU guest: busybox, the modules that mounting its root needs, guest/init.

The archive has the kernel's format, cpio "newc". It is not compressed: it is
small, and an emulated processor decompresses slowly.
"""

import os
import stat
from typing import Iterable, List

from .. import LAB_DIR
from ..core import subprocesses
from ..kernel.debian_kernels import Kernel

BOOT_MODULES = ("virtio_pci", "9pnet_virtio", "9p", "overlay", "virtio_console")
INIT = os.path.join(LAB_DIR, "guest", "init")


class CpioArchive:
    def __init__(self, path: str):
        self.file = open(path, "wb")
        self.inode = 0

    def add(
        self, name: str, mode: int, data: bytes = b"", device: "tuple[int, int]" = (0, 0)
    ) -> None:
        self.inode += 1
        path = name.encode() + b"\0"
        # Inode, mode, uid, gid, links, mtime, size, device of the file system, device of the node,
        # length of the path, checksum.
        fields = (self.inode, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(path), 0)
        header = b"070701" + b"".join(b"%08x" % field for field in fields)
        self._write_padded(header + path)
        self._write_padded(data)

    def _write_padded(self, data: bytes) -> None:
        self.file.write(data + b"\0" * (-len(data) % 4))

    def close(self) -> None:
        self.add("TRAILER!!!", 0)
        self.file.close()


def write_initramfs(path: str, kernel: Kernel, files: "dict[str, bytes]") -> None:
    """files: names in the archive's root, and contents."""
    archive = CpioArchive(path)
    for folder in ("bin", "dev", "proc", "sys", "modules", "low", "upper", "root"):
        archive.add(folder, stat.S_IFDIR | 0o755)
    archive.add("dev/console", stat.S_IFCHR | 0o600, device=(5, 1))
    busybox = _read_file(os.path.join(kernel.path, "busybox"))
    archive.add("bin/busybox", stat.S_IFREG | 0o755, busybox)
    for number, module in enumerate(boot_module_paths(kernel)):
        name = os.path.basename(module).removesuffix(".xz")
        archive.add(f"modules/{number:02d}-{name}", stat.S_IFREG | 0o644, read_module(module))
    archive.add("init", stat.S_IFREG | 0o755, _read_file(INIT))
    for name, data in files.items():
        archive.add(name, stat.S_IFREG | 0o644, data)
    archive.close()


def boot_module_paths(kernel: Kernel, modules: Iterable[str] = BOOT_MODULES) -> List[str]:
    """The files of the modules and their dependencies, in the order of insertion."""
    modprobe = subprocesses.require_program("modprobe", "kmod", "preparing a guest")
    paths: List[str] = []
    for module in modules:
        output = subprocesses.capture_output(
            [modprobe, "-d", kernel.path, "-S", kernel.release, "--show-depends", module],
            error_text=f"kernel {kernel.release} lacks {module}, which the guest needs",
        )
        for line in output.splitlines():
            command, _, path = line.strip().partition(" ")
            if command == "insmod" and path.strip() not in paths:
                paths.append(path.strip())
    return paths


def read_module(path: str) -> bytes:
    """The module, decompressed: busybox cannot insert a compressed one."""
    data = _read_file(path)
    if path.endswith(".xz"):
        import lzma

        data = lzma.decompress(data)
    return data


def _read_file(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
