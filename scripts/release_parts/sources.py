# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What anyone needs to make the files of a release, or others, from."""

import os
import tarfile
import textwrap

from lab import VERSION
from lab.debian import packages
from lab.kernel import pinned_kernel

from .material import Material, git
from .prefix import write_tar

README_COLUMNS = 80


def make_sources(material: Material, work: str) -> str:
    """What anyone needs to make the same files, or others, from."""
    top = f"softrdma-{VERSION}-sources"
    folder = os.path.join(work, top)
    os.mkdir(folder)
    tree_archive = os.path.join(folder, f"coherdma-{VERSION}.tar")
    git(
        "archive",
        "--format=tar",
        f"--prefix=coherdma-{VERSION}/",
        "--output",
        tree_archive,
        material.commit,
    )
    pinned_kernel.download(material.pin, folder)
    suite = packages.Suite(packages.running_release(), packages.machine_arch(), of_sources=True)
    suite.update_lists()
    suite.download_source("glibc", material.libc, folder)
    with open(os.path.join(folder, "README.txt"), "w", encoding="utf-8") as file:
        file.write(sources_readme(material))
    path = folder + ".tar"
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as tar:
        write_tar(tar, folder, top, material.seconds)
    return path


def sources_readme(material: Material) -> str:
    pin = material.pin
    deb = os.path.basename(pin.file_name)
    paragraphs = (
        f"coherdma-{VERSION}.tar is softrdma, commit {material.commit}, with the kernel's configuration "
        "(scripts/lab/kernel/uml.config) and its patches (scripts/lab/patches).",
        f"{deb}, Debian's package, is the kernel's source; its SHA-256 is {pin.sha256}. "
        f"It was listed in {pin.provenance}.",
        f"glibc_* is the source of the C library that is linked with the kernel, {material.libc}.",
        f"To make the kernel on Debian {packages.running_release()}, with the compiler of this release:",
    )
    text = "\n\n".join(textwrap.fill(paragraph, README_COLUMNS) for paragraph in paragraphs)
    return f"""\
The sources of softrdma {VERSION}.

{text}

    tar -xf coherdma-{VERSION}.tar
    dpkg-deb -x {deb} linux
    coherdma-{VERSION}/scripts/softrdma kernel build --output kernel \\
        --source linux/usr/src/{pin.package}.tar.xz
"""
