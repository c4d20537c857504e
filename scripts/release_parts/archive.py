# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The archive, which runs where it is unpacked."""

import lzma
import os
import tarfile

from lab import VERSION
from lab.core import progress

from .material import ARCH, Material
from .prefix import make_prefix, set_first_line, write_tar


def make_archive(material: Material, work: str) -> str:
    top = f"softrdma-{VERSION}-{ARCH}"
    prefix = os.path.join(work, top)
    make_prefix(material, prefix)
    # Python is not /usr/bin/python3 everywhere.
    set_first_line(os.path.join(prefix, "bin", "softrdma"), "#!/usr/bin/env python3")
    path = prefix + ".tar.xz"
    with progress.Step(f"compressing {top}", expected_seconds=15):
        with lzma.open(path, "wb", preset=9 | lzma.PRESET_EXTREME) as compressed, tarfile.open(
            fileobj=compressed, mode="w", format=tarfile.GNU_FORMAT
        ) as tar:
            write_tar(tar, prefix, top, material.seconds)
    return path
