# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The compiler of another Debian release, in its own root.

The programs that build a kernel's modules are linked with the C library of the
kernel's release, so they run in a root of that release. This needs root, or a
user namespace.
"""

import os
from typing import Dict, List

from ..core import progress, subprocesses
from . import packages, rootfs
from .packages import Suite

PACKAGES = (
    *("base-files", "bash", "coreutils", "dash", "diffutils", "findutils", "grep", "mawk"),
    *("make", "sed", "binutils"),
)
# The headers of a kernel depend on the kernel, which is not needed to build.
EXCLUDED_PREFIXES = (
    "linux-image-",
    "linux-binary-",
    "linux-modules-",
    "initramfs-tools",
    "dracut",
    "firmware-",
)
PATH = "/usr/sbin:/usr/bin"
CHROOT_SCRIPT = 'mount --rbind /dev "$1/dev" && mount --rbind /proc "$1/proc" && exec chroot "$@"'


def make_root(suite: Suite, package_names: List[str], work_folder: str) -> str:
    """Make a root in the work folder, with these packages and the programs of a build."""
    root, downloads = os.path.join(work_folder, "root"), os.path.join(work_folder, "compilers")
    os.makedirs(downloads)
    packages.make_merged_usr(root)
    resolved = [
        package
        for package in suite.resolve_dependencies([*PACKAGES, *package_names])
        if not package.name.startswith(EXCLUDED_PREFIXES)
    ]
    debs = suite.download(resolved, downloads)
    packages.unpack_and_delete(debs, root, f"compilers of {suite.name}")
    rootfs.add_base_files(root)
    for name in ("dev", "proc", "tmp"):
        os.makedirs(os.path.join(root, name), exist_ok=True)
    return root


def run_in_root(root: str, argv: List[str], env: Dict[str, str], title: str) -> None:
    """Run a program of the root."""
    unshare = [subprocesses.require_program("unshare", "util-linux", title), "--mount"]
    if os.geteuid() != 0:
        unshare.append("--map-root-user")
    subprocesses.capture_output(  # whether it is permitted
        [*unshare, "true"], error_text=f"{title} needs root, or user namespaces, which failed"
    )
    with progress.Step(title, expected_seconds=30) as step:
        subprocesses.run_long(
            [*unshare, "sh", "-c", CHROOT_SCRIPT, "sh", root, *argv],
            f"{title} failed",
            on_progress=lambda _: step.update(None),
            env={**env, "PATH": PATH},
        )
