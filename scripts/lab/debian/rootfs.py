# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""A root file system of another architecture or Debian release.

It is unpacked from Debian packages and not configured, so it needs neither root
nor an emulator. add_base_files() makes what the packages' scripts would have made.
"""

import hashlib
import os
from typing import Any, Dict

from ..core import cache, supervisor
from ..core.temporary_folders import make_work_folder
from . import packages
from .packages import Suite

CACHE_KIND = "roots"
# Part of the cache key, in this order.
PACKAGES = (
    *(
        "base-files",
        "base-passwd",
        "bash",
        "coreutils",
        "dash",
        "findutils",
        "grep",
        "sed",
        "mawk",
        "util-linux",
        "mount",
    ),
    *("procps", "python3", "kmod", "iproute2", "iputils-ping", "netbase"),
    *("ibverbs-providers", "ibverbs-utils", "rdmacm-utils", "perftest", "rdma-core"),
)
PASSWD = (
    "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
)


def get_rootfs(arch: str, suite_name: str) -> str:
    """The path of a root file system; it is made if the cache has none."""
    packages_digest = hashlib.sha256(" ".join(PACKAGES).encode()).hexdigest()[:8]
    return cache.get_or_build(
        CACHE_KIND,
        f"{suite_name}-{arch}-{packages_digest}",
        lambda path: _build(Suite(suite_name, arch), path),
        [],
    )


def _build(suite: Suite, path: str) -> Dict[str, Any]:
    suite.update_lists()
    cache.require_space(megabytes=900, purpose=f"a root file system for {suite.arch}")
    packages.make_merged_usr(path)
    with supervisor.Undo() as undo:
        work_folder = make_work_folder(undo, f"root-{suite.arch}")
        debs = suite.download(suite.resolve_dependencies(list(PACKAGES)), work_folder)
        packages.unpack_and_delete(debs, path, f"a {suite.arch} root of {len(debs)} packages")
    add_base_files(path)
    return {"suite": suite.name, "arch": suite.arch}


def add_base_files(root: str) -> None:
    """Make the files that programs need and that the packages' scripts, which do not run, would make."""
    for name, text in {
        "passwd": PASSWD,
        "group": "root:x:0:\nnogroup:x:65534:\n",
        "hosts": "127.0.0.1 localhost\n",
        "hostname": "softrdma\n",
    }.items():
        path = os.path.join(root, "etc", name)
        if not os.path.exists(path):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
    for name, target in {"sh": "dash", "awk": "mawk"}.items():
        link = os.path.join(root, "usr", "bin", name)
        if not os.path.lexists(link):
            os.symlink(target, link)
