# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What anyone needs to make the files of a release, or others, from."""

import os
import re
import shutil
import tarfile
import textwrap

from lab import VERSION
from lab.core import files
from lab.core.errors import LabError, Unavailable
from lab.debian import packages
from lab.kernel import pinned_kernel
from lab.kernel.linked_libraries import Library

from .material import TREE_NAME, Material
from .prefix import write_tar

README_COLUMNS = 80


def make_sources(material: Material, work: str) -> str:
    """What anyone needs to make the same files, or others, from."""
    if not material.tree_archive:
        raise Unavailable(
            "sources are made in a git checkout only; name other parts: archive wheel"
        )
    top = f"softrdma-{VERSION}-sources"
    folder = os.path.join(work, top)
    os.mkdir(folder)
    shutil.copy(material.tree_archive, folder)
    kernel_folder = os.path.join(folder, os.path.dirname(material.pin.file_name))  # as on a mirror
    os.makedirs(kernel_folder)
    shutil.copy(pinned_kernel.get_package(material.pin), kernel_folder)
    download_source(material.libc, os.path.join(folder, material.libc["source"]), work)
    with open(os.path.join(folder, "README.txt"), "w", encoding="utf-8") as file:
        file.write(sources_readme(material))
    path = folder + ".tar"
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as tar:
        write_tar(tar, folder, top, material.seconds)
    return path


def download_source(library: Library, folder: str, work: str) -> None:
    """Make the folder, with the source package: the files that its .dsc names, and nothing else."""
    downloads = os.path.join(work, "downloads")
    os.mkdir(downloads)
    suite = packages.Suite(packages.running_release(), packages.machine_arch(), of_sources=True)
    suite.update_lists()
    try:
        suite.download_source(library["source"], library["version"], downloads)
    except Unavailable as problem:
        raise Unavailable(
            f"{problem}; if the mirror has a newer one, upgrade {library['package']} and start again: the kernel is "
            "then linked with that"
        ) from problem
    keep_source_package(downloads, folder)


def keep_source_package(downloads: str, folder: str) -> None:
    """Move the files of the one source package to the new folder."""
    (dsc,) = [name for name in os.listdir(downloads) if name.endswith(".dsc")]
    with open(os.path.join(downloads, dsc), encoding="utf-8") as file:
        sums = dict(re.findall(r"^ ([0-9a-f]{64}) [0-9]+ ([^/\s]+)$", file.read(), re.MULTILINE))
    os.mkdir(folder)
    os.rename(os.path.join(downloads, dsc), os.path.join(folder, dsc))
    names = {name: sha256 for sha256, name in sums.items()}
    if not names:
        raise LabError(f"{dsc} names no files with a SHA-256")
    for name, sha256 in names.items():
        path = os.path.join(downloads, name)
        if not os.path.isfile(path) or files.hash_file(path) != sha256:
            raise LabError(f"{name} is not what {dsc} names; start again")
        os.rename(path, os.path.join(folder, name))


def sources_readme(material: Material) -> str:
    pin, libc, libgcc = material.pin, material.libc, material.libgcc
    paragraphs = (
        f"{TREE_NAME}.tar is softrdma, commit {material.commit}, with the kernel's configuration "
        "(scripts/lab/kernel/*.config) and its patches (scripts/lab/patches).",
        f"{pin.file_name}, Debian's package, is the kernel's source; its SHA-256 is {pin.sha256}. "
        f"It was listed in {pin.provenance}.",
        f"{libc['source']} has the source of the C library that is linked with the kernel, {libc['version']}. Of "
        f"{libgcc['package']} {libgcc['version']}, libgcc is linked, whose license lets that be without its source.",
        f"To make the kernel, and from it the archive and the wheel, with their bytes, on Debian "
        f"{packages.running_release()} with {libc['package']} {libc['version']} and {material.compiler}:",
    )
    text = "\n\n".join(textwrap.fill(paragraph, README_COLUMNS) for paragraph in paragraphs)
    return f"""\
The sources of softrdma {VERSION}.

{text}

    tar -xf {TREE_NAME}.tar
    export SOFTRDMA_MIRROR=file:$PWD SOFTRDMA_CACHE=$PWD/cache
    {TREE_NAME}/scripts/release --out dist archive wheel

`{TREE_NAME}/scripts/softrdma kernel build` makes the kernel alone, in the folder cache/uml.
"""
