# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Unpacks Debian's source packages, and runs what builds them."""

import glob
import os
import shutil
import subprocess
from typing import Dict, List, Optional

from emulator import unpack_root  # noqa: F401  # which makes the lab importable
from lab.core.errors import LabError, Unavailable
from lab.debian import packages


def unpack_source(
    name: str, binary_package: str, folder: str, release: Optional[str] = None
) -> None:
    """Make the folder, with the source package of a Debian release, by default this machine's.

    binary_package: one of its packages.
    apt verifies the source, and dpkg-source its files by the .dsc.
    """
    release, arch = release or packages.running_release(), packages.machine_arch()
    suite = packages.Suite(release, arch)
    suite.update_lists()
    package = suite.find_package(binary_package)  # all packages of a source have one version
    if not package:
        raise Unavailable(f"{release} has no {binary_package} for {arch}")
    sources = packages.Suite(release, arch, of_sources=True)
    sources.update_lists()
    downloads = folder + ".downloads"
    shutil.rmtree(downloads, ignore_errors=True)
    os.mkdir(downloads)
    sources.download_source(name, package.version.split("+b")[0], downloads)
    (dsc,) = glob.glob(f"{downloads}/*.dsc")
    shutil.rmtree(folder, ignore_errors=True)
    run(["dpkg-source", "-q", "--no-copy", "--extract", dsc, folder], os.getcwd(), {})
    shutil.rmtree(downloads)


def run(command: List[str], folder: str, variables: Dict[str, str]) -> str:
    """Returns what it prints."""
    result = subprocess.run(
        command,
        check=False,
        cwd=folder,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    if result.returncode != 0:
        lines = "\n".join(result.stdout.splitlines()[-20:])
        raise LabError(f"{' '.join(command)}: status {result.returncode}\n{lines}")
    return result.stdout
