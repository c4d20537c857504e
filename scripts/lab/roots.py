# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""A root file system for an architecture or a Debian release that is not this machine's.

Debian packages, unpacked and not configured: enough to run RDMA programs as
root of a guest, with no need for root here or for an emulator of single
programs. What configuration would have made is made by finish().
"""

import hashlib
import os
from typing import Any, Dict

from . import cache, keeper, packages
from .packages import Suite

KIND = "roots"
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


def get(arch: str, suite_name: str) -> str:
    """The path of a root for the architecture."""
    recipe = hashlib.sha256(" ".join(PACKAGES).encode()).hexdigest()[:8]
    return cache.entry(
        KIND,
        f"{suite_name}-{arch}-{recipe}",
        lambda path: _build(Suite(suite_name, arch), path),
        [],
    )


def _build(suite: Suite, path: str) -> Dict[str, Any]:
    suite.refresh()
    cache.need_room(900, f"a root file system for {suite.arch}")
    packages.merge_usr(path)
    with keeper.Undo() as undo:
        shop = packages.workshop(undo, f"root-{suite.arch}")
        debs = suite.download(suite.closure(list(PACKAGES)), shop)
        packages.unpack_and_drop(debs, path, f"a {suite.arch} root of {len(debs)} packages")
    finish(path)
    return {"suite": suite.name, "arch": suite.arch}


def finish(path: str) -> None:
    """What the packages' own scripts would have done, as far as programs need it."""
    for name, text in {
        "passwd": PASSWD,
        "group": "root:x:0:\nnogroup:x:65534:\n",
        "hosts": "127.0.0.1 localhost\n",
        "hostname": "softrdma\n",
    }.items():
        place = os.path.join(path, "etc", name)
        if not os.path.exists(place):
            with open(place, "w", encoding="utf-8") as file:
                file.write(text)
    for name, target in {"sh": "dash", "awk": "mawk"}.items():
        link = os.path.join(path, "usr", "bin", name)
        if not os.path.lexists(link):
            os.symlink(target, link)
