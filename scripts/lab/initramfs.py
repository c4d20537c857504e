# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What a guest boots from: busybox, the modules on the way to its root, our init.

The archive is the kernel's own format, cpio "newc", written uncompressed: it
is small, and unpacking a compressed one costs an emulated CPU more.
"""

import os
import stat
from typing import List

from . import children, kernels
from .kernels import Kernel

GUEST = os.path.join(os.path.dirname(os.path.realpath(__file__)), "guest")


class Archive:
    def __init__(self, path: str):
        self.file = open(path, "wb")
        self.inode = 0

    def add(
        self, name: str, mode: int, data: bytes = b"", device: "tuple[int, int]" = (0, 0)
    ) -> None:
        self.inode += 1
        path = name.encode() + b"\0"
        fields = (self.inode, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(path), 0)
        header = b"070701" + b"".join(b"%08x" % field for field in fields)
        self._write(header + path)
        self._write(data)

    def _write(self, data: bytes) -> None:
        self.file.write(data + b"\0" * (-len(data) % 4))

    def close(self) -> None:
        self.add("TRAILER!!!", 0)
        self.file.close()


def write(path: str, kernel: Kernel, files: "dict[str, bytes]") -> None:
    """The archive at path, with some files of this run's own in its root."""
    archive = Archive(path)
    for folder in ("bin", "dev", "proc", "sys", "modules", "low", "upper", "root"):
        archive.add(folder, stat.S_IFDIR | 0o755)
    archive.add("dev/console", stat.S_IFCHR | 0o600, device=(5, 1))
    archive.add(
        "bin/busybox", stat.S_IFREG | 0o755, _contents(os.path.join(kernel.path, "busybox"))
    )
    for number, module in enumerate(boot_modules(kernel)):
        archive.add(
            f"modules/{number:02d}-{_plain_name(module)}", stat.S_IFREG | 0o644, _contents(module)
        )
    archive.add("init", stat.S_IFREG | 0o755, _contents(os.path.join(GUEST, "init")))
    for name, data in files.items():
        archive.add(name, stat.S_IFREG | 0o644, data)
    archive.close()


def boot_modules(kernel: Kernel) -> List[str]:
    """The module files to insert, in an order that works."""
    modprobe = children.need("modprobe", "kmod", "preparing a guest")
    found: List[str] = []
    for module in kernels.BOOT_MODULES:
        out = children.capture(
            [modprobe, "-d", kernel.path, "-S", kernel.release, "--show-depends", module],
            fails=f"kernel {kernel.release} lacks {module}, which the guest needs",
        )
        for line in out.splitlines():
            word, _, path = line.strip().partition(" ")
            if word == "insmod" and path.strip() not in found:
                found.append(path.strip())
    return found


def _plain_name(path: str) -> str:
    return os.path.basename(path).removesuffix(".xz")


def _contents(path: str) -> bytes:
    with open(path, "rb") as file:
        data = file.read()
    if path.endswith(".xz"):  # busybox cannot insert a compressed module
        import lzma

        data = lzma.decompress(data)
    return data
