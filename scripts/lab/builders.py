# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Compilers of another Debian release, unpacked and used in a root of their own.

What builds a kernel's modules is linked with the C library of the kernel's release. So it runs
where that library is: in another root, which needs to be root, or a user namespace.
"""

import os
from typing import Dict, List

from . import children, packages, roots, say
from .packages import Suite

PACKAGES = (
    *("base-files", "bash", "coreutils", "dash", "diffutils", "findutils", "grep", "mawk"),
    *("make", "sed", "binutils"),
)
# Headers ask for the kernel itself, which has no part in this.
UNWANTED = (
    "linux-image-",
    "linux-binary-",
    "linux-modules-",
    "initramfs-tools",
    "dracut",
    "firmware-",
)
PATH = "/usr/sbin:/usr/bin"
ENTER = 'mount --rbind /dev "$1/dev" && mount --rbind /proc "$1/proc" && exec chroot "$@"'


def make(suite: Suite, wanted: List[str], shop: str) -> str:
    """A root in the workshop with these packages and what builds with them."""
    root, folder = os.path.join(shop, "root"), os.path.join(shop, "compilers")
    os.makedirs(folder)
    packages.merge_usr(root)
    found = [
        package
        for package in suite.closure([*PACKAGES, *wanted])
        if not package.name.startswith(UNWANTED)
    ]
    packages.unpack_and_drop(suite.download(found, folder), root, f"compilers of {suite.name}")
    roots.finish(root)
    for name in ("dev", "proc", "tmp"):
        os.makedirs(os.path.join(root, name), exist_ok=True)
    return root


def run(root: str, argv: List[str], env: Dict[str, str], what: str) -> None:
    """A program of that root."""
    enter = [children.need("unshare", "util-linux", what), "--mount"]
    if os.geteuid() != 0:
        enter.append("--map-root-user")
    children.capture(
        [*enter, "true"], fails=f"{what} needs root or user namespaces, which are not to be had"
    )
    with say.Step(what, expect=30) as step:
        children.work(
            [*enter, "sh", "-c", ENTER, "sh", root, *argv],
            f"{what} failed",
            tick=lambda _: step.at(None),
            env={**env, "PATH": PATH},
        )
